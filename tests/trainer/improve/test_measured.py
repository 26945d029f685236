"""An improvement of something that is measured: verdict and story have its unit and direction.

All recordings are there already, so nothing is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.servers.grading import Score
from mcp_bench.trainer.cli.improve import improve
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder
from mcp_bench.trainer.improve.settings import ImproveSettings
from tests.support.recorded import Episode, planned, record

pytestmark = [pytest.mark.component, pytest.mark.usefixtures("bench_home")]

TASKS = {"gate": "dev", "confirm": "dev", "test": "test"}


def size(value: float) -> Score:
    return Score(name="size", value=value, better="lower", unit="bits/byte")


def time(value: float, baseline: float) -> Score:
    return Score(name="time", value=value, better="lower", unit="s", baseline=baseline)


def recorded(what: str, scores: Sequence[Score]) -> str:
    """Record attempts with these scores, and return the run."""
    stories = [
        (planned(f"{what}.{number}", TASKS[what]), Episode(partial=0.0, score=score))
        for number, score in enumerate(scores)
    ]
    return record(stories)[0].id


def measured(place: Path, before: Sequence[Score], after: Sequence[Score]) -> dict[str, Any]:
    """Judge a harness that was recorded already, and return the history."""
    place.mkdir()
    folder = ImproveFolder(place)
    folder.store(
        ImproveSettings(
            benchmark="b", train=["t"], dev=["d"], confirm=["c"], test=["t"], candidates=1, generations=1,
            patience=1,
        )
    )  # fmt: skip
    for arm, scores in ((Arm(), before), (Arm(1), after)):
        for what in TASKS:
            done = {"run": recorded(what, scores), "spent": {"episodes": 10, "tokens": 120}}
            (folder.arm(arm) / f"{what}-0.json").write_text(json.dumps(done))
    proposal = {"action": "harness", "reason": "candidate small", "harness": "h1@12ab"}
    (folder.generation(1) / "proposal.json").write_text(json.dumps(proposal))
    (folder.generation(1) / "check.json").write_text(json.dumps({"refused": [], "for_agents": []}))
    done = CliRunner().invoke(improve, [str(place), "--json", "--html", str(place / "page.html")])
    assert done.exit_code == 0, (done.output, done.exception)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_smaller_size_is_promoted(tmp_path: Path) -> None:
    """Partial credit is 0 throughout: only the size says what became better."""
    found = measured(tmp_path / "out", [size(2.0)] * 10, [size(1.5), size(1.7)] * 5)
    (one,) = found["generations"]
    assert (one["verdict"], one["measure"]) == ("promoted", ["size", "bits/byte", "lower"])
    assert one["why"].startswith("size (lower is better) +0.4 [+0.34, +0.46] bits/byte, 0 tasks fixed")
    shown = CliRunner().invoke(improve, [str(tmp_path / "out"), "--show"]).stdout
    assert "+0.4 [+0.34, +0.46] bits/byte" in shown
    assert "On test of size in bits/byte (lower is better): harness +0.4 [+0.34, +0.46] bits/byte" in shown
    page = (tmp_path / "out" / "page.html").read_text()
    assert "Means on test of size in bits/byte (lower is better)" in page
    assert "1.600" in page and "2.000" in page  # as they were measured, not their negatives


def test_a_larger_size_is_not(tmp_path: Path) -> None:
    (one,) = measured(tmp_path / "out", [size(1.5)] * 10, [size(2.0)] * 10)["generations"]
    assert (one["verdict"], one["promoted"]) == ("not promoted", False)


def test_a_time_is_compared_by_what_the_baseline_took_beside_it(tmp_path: Path) -> None:
    """Between the recordings, the machine became twice as fast: that is no gain."""
    busy = [time(0.6 + number / 100, 0.8 + number / 100) for number in range(10)]
    idle = [time(one.value / 2, (one.baseline or 0) / 2) for one in busy]
    (same,) = measured(tmp_path / "same", busy, idle)["generations"]
    assert (same["verdict"], round(same["difference"], 9)) == ("not promoted", 0)
    faster = [time(one.value / 4, (one.baseline or 0) / 2) for one in busy]
    (found,) = measured(tmp_path / "faster", busy, faster)["generations"]
    # half of the time that the start took, where the baseline took the mean of both moments
    usual = [0.75 * (one.baseline or 0) for one in busy]
    half = [one.value / (one.baseline or 1) * mean / 2 for one, mean in zip(busy, usual, strict=True)]
    assert found["verdict"] == "promoted"
    assert found["difference"] == pytest.approx(sum(half) / 10)
