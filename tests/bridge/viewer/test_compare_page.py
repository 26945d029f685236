"""The viewer's comparison of two sides: runs, agents, or conditions."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from mcp_bench.bridge.viewer.pages import analysis_pages, run_pages
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import client
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


def test_runs_that_are_named_may_be_old(bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "MOST_RUNS", 1)
    monkeypatch.setattr(analysis_pages, "MOST_COMPARED", 1)
    names = [record([(planned(), Episode((), score))])[0].path.name for score in (0.25, 0.5, 1.0)]
    viewed = client()
    assert ".25" in viewed.get(f"/grid?run={names[0]}").text
    compared = viewed.get(f"/compare?a={names[0]}&b={names[2]}")
    assert compared.status_code == 200
    assert "0.25" in parse(compared.text).text and "not read" not in compared.text
    record([(planned(), Episode())], agent="other")
    monkeypatch.setattr(analysis_pages, "MOST_COMPARED", 2)
    said = parse(viewed.get("/compare?a=oracle&b=other").text).text
    assert "Of the newest 2 runs: 2 older are not read." in said
    record([(planned("elsewhere"), Episode())], agent="third")
    said = parse(viewed.get("/compare?a=other&b=third").text).text
    assert "No task has a valid graded episode on both sides." in said
    assert "Of the newest 2 runs: 3 older are not read." in said


def test_domains_are_compared_side_by_side(bench_home: Path) -> None:
    slots = [planned(name).model_copy(update={"domain": name}) for name in ("sales", "hr", "broken")]
    for agent, scores in (("one", (0.25, 1.0, None)), ("two", (0.75, 0.5, 1.0))):
        stories = [
            (slot, Episode((), score, invalid="x" if score is None else None))
            for slot, score in zip(slots, scores, strict=True)
        ]
        record(stories, agent=agent)
    page = parse(client().get("/compare?a=one&b=two").text)
    partial, strict = (one for one in page.all("figure") if one.attributes["class"] == "domains")
    said = [one.attributes["aria-label"] for one in partial.all("svg")]
    assert said == ["hr, partial: A 1.00, B 0.50", "sales, partial: A 0.25, B 0.75"]
    widths = [one.attributes["width"] for one in partial.all("rect") if "fill" in one.attributes["class"]]
    assert widths == ["100.0", "50.0", "25.0", "75.0"]
    assert len(strict.all("svg")) == 2  # no bars for a domain of invalid episodes


def test_options_of_an_agent_are_compared(bench_home: Path) -> None:
    """Each flipped task leads to an attempt of either side."""
    made = {}
    for effort, score in (("low", 0.0), ("", 1.0)):
        settings = {"options": {"effort": effort} if effort else {}}
        made[effort] = record([(planned("task"), Episode((), score))], settings=settings)[1][0]
    page = client().get("/compare?a=effort=low&b=effort=").text
    assert re.search(f'side-by-side\\?a=[^"&]*{made["low"]}&amp;b=[^"&]*{made[""]}', page), page


def test_a_comparison_mixes_no_conditions(bench_home: Path) -> None:
    """A side that mixes them is refused, as the command does; where the sides differ is said."""
    names = [
        record([(planned(), Episode())], tools=tools, agent=agent)[0].path.name
        for agent, tools in (("one", "mcp-only"), ("one", "all"), ("two", "all"))
    ]
    viewed = client()
    refused = viewed.get("/compare?a=one&b=two")
    assert refused.status_code == 400
    why = "the side 'one' has episodes under different conditions (tools all; tools mcp-only)"
    assert why in parse(refused.text).text
    differ = "The conditions differ: tools mcp-only against tools all"
    assert differ in parse(viewed.get(f"/compare?a={names[0]}&b={names[2]}").text).text
    assert "conditions" not in parse(viewed.get(f"/compare?a={names[1]}&b={names[2]}").text).text


def test_a_copied_run_does_not_count_twice(bench_home: Path) -> None:
    """As in the reports."""
    (copied, _), *_ = (
        record([(planned(), Episode((), score))], agent=agent)
        for agent, score in (("one", 0.25), ("one", 1.0), ("two", 1.0))
    )
    shutil.copytree(copied.path, copied.path.with_name(f"{copied.id}_bak"))
    viewed = client()
    assert "1 of 2" in parse(viewed.get("/compare?a=one&b=two").text).text
    for page in ("/", f"/runs/{copied.id}_bak"):
        assert f"is a copy of the run {copied.id} beside it" in parse(viewed.get(page).text).text
    for page in ("/grid", "/failures", "/tools"):
        assert f"{copied.id}_bak" not in viewed.get(page).text, page
