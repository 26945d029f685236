"""Every page of the viewer over a recorded home: what it shows, and that no text of an agent becomes markup."""

from __future__ import annotations

import json
import re
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from mcp_bench.bridge.viewer.pages import run_pages
from mcp_bench.recorder.runs.annotations import annotate, read_annotations
from mcp_bench.recorder.store.reviews import Reviews
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import EVIL, OWN, client, hostile_home, talked
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component

PAGES = (
    "/", "/grid", "/grid?run={run}", "/compare", "/compare?a={run}&b={other}", "/tools", "/failures", "/reviews",
    "/search", "/search?q=script", "/runs/{run}", "/runs/{run}?q=task-1&verdict=failed", "/runs/{run}/{first}",
    "/runs/{run}/{second}", "/runs/{run}/{third}", "/runs/{run}/{last}", "/runs/{run}/{first}/frames",
    "/runs/{run}/{first}/effects", "/side-by-side?a={run}/{first}&b={run}/{second}",
    "/no-such-page", "/runs/nothing", "/runs/{run}/nothing", "/episodes/ep_nothing",
)  # fmt: skip


@dataclass
class Hostile:
    """A home that all tests of this file only read, and a browser on it."""

    home: Path
    run: str
    other: str
    episodes: list[str]
    browser: TestClient

    def get(self, page: str) -> Any:
        names = dict(zip(("first", "second", "third", "last"), self.episodes, strict=True))
        return self.browser.get(page.format(run=self.run, other=self.other, **names))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hostile]:
    home = tmp_path_factory.mktemp("hostile")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_HOME", str(home))
        run, episodes = hostile_home()
        other, _ = hostile_home()
        annotate(home / "runs" / run, add=["tag"], note=EVIL)
        Reviews().put(run, episodes[0], "bad", EVIL)
        yield Hostile(home, run, other, episodes, client())


@pytest.fixture
def hostile_again(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> Hostile:
    """The same home for a test, in place of its own."""
    monkeypatch.setenv("MCP_BENCH_HOME", str(hostile.home))
    return hostile


@pytest.mark.parametrize("page", PAGES)
def test_hostile_text_stays_text_on(page: str, hostile_again: Hostile) -> None:
    answer = hostile_again.get(page)
    assert answer.status_code == (404 if "no" in page else 200)
    read = parse(f"<page>{answer.text}</page>" if "doctype" not in answer.text else answer.text)
    for element in read.all():
        assert element.tag != "script" or element.attributes["src"].startswith("/static/")
        assert not any(name.startswith("on") or name == "style" for name in element.attributes)
        assert element.attributes.get("src") != "x"
    # a field that is stored has what was typed: what it shows is what the next save stores
    unsaved = re.sub(r"<textarea.*?</textarea>", "", answer.text, flags=re.DOTALL)
    assert "\u202e" not in unsaved
    assert "\x1b" not in unsaved
    assert "3703701" not in read.text
    assert "unsafe" not in answer.headers["content-security-policy"]


def test_an_episode_shows_all_that_is_known(hostile_again: Hostile) -> None:
    text = parse(hostile_again.get("/runs/{run}/{first}").text).text
    for part in (
        "0.500",
        "not met",
        "error of the tool",
        "turn 1",
        "Reasoning",
        "tokens in",
        "seed 7",
        "grader",
    ):
        assert part.lower() in text.lower()


def test_records_alike_become_a_table(hostile_again: Hostile) -> None:
    page = parse(hostile_again.get("/runs/{run}/{first}").text)
    (table,) = page.all("table")
    assert [cell.text for cell in table.all("th")] == ["a", "c"]
    assert [cell.text for cell in table.all("td")] == ["<b>", "1", "x", "null"]


def test_episodes_are_sorted_by_a_column(bench_home: Path) -> None:
    stories = [
        (planned("b"), Episode([("t", {}, "x")] * 2, 0.5)),
        (planned("a"), Episode([("t", {}, "!x")], 1.0)),
        (planned("c"), Episode((), None, invalid="x")),
    ]
    run, viewed = record(stories)[0].path.name, client()
    page = f"/runs/{run}"

    def tasks(query: str) -> str:
        found = parse(viewed.get(f"{page}{query}").text)
        return "".join(one.text for one in found.all("td") if one.attributes.get("class") == "task")

    for query, order in (
        ("", "bac"), ("?sort=task", "abc"), ("?sort=-partial", "abc"), ("?sort=partial", "cba"), ("?sort=-calls", "bac"),
        ("?sort=-failed", "abc"), ("?sort=nothing", "bac"), ("?sort=-task&verdict=partly", "b"),
    ):  # fmt: skip
        assert tasks(query) == order, query
    head = parse(viewed.get(f"{page}?sort=-calls&q=train").text)
    (sorted_by,) = (one for one in head.all("th") if "aria-sort" in one.attributes)
    assert (sorted_by.text, sorted_by.attributes["aria-sort"]) == ("Calls ↓", "descending")
    assert sorted_by.all("a")[0].attributes["href"] == f"{page}?q=train&sort=calls"


def test_columns_without_a_value_are_left_out(bench_home: Path) -> None:
    run = record([(planned("a"), Episode())])[0].path
    viewed = client()

    def heads(page: str) -> list[str]:
        return [one.text for one in parse(viewed.get(page).text).all("table")[-1].all("th")]

    assert heads("/") == ["Agent", "Benchmark", "Partial", "Strict", "Done", "Began, UTC", "Run"]
    assert heads(f"/runs/{run.name}")[-2:] == ["Notes", "Prompt"]
    assert "Cost" not in heads(f"/runs/{run.name}")
    assert "Please do a." in viewed.get(f"/runs/{run.name}").text
    annotate(run, note="mine")
    assert heads("/")[-1] == "Tags and note"


def test_failures_are_grouped_without_values(bench_home: Path) -> None:
    names = (
        "new in mail (no. 1): {'to': 'x'}",
        "new in mail (no. 2): {'to': 'y'}",
        "deal d_1: stage is 'won'",
    )
    record([(planned(str(at)), Episode((), 0.5, assertion=name)) for at, name in enumerate(names)])
    found = parse(client().get("/failures").text).all("span")
    groups = {one.text for one in found if one.attributes.get("class") == "what"}
    assert {"new in mail", "deal …: stage is …"} <= groups


def test_a_damaged_grade_hides_no_failure(bench_home: Path) -> None:
    folder, (first, _) = record([(planned(one), Episode((), 0.5, assertion=f"goal {one}")) for one in "ab"])
    with closing(sqlite3.connect(folder.path / "grades.db")) as db, db:
        db.execute("UPDATE grades SET assertions = '{' WHERE episode = ?", [first])
    found = parse(client().get("/failures").text).all("span")
    groups = {one.text for one in found if one.attributes.get("class") == "what"}
    assert groups == {"it made no call", "goal b", "its grade cannot be read"}


def test_a_large_grid_has_pages(bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_pages, "CELLS_ON_A_PAGE", 4)
    monkeypatch.setattr(run_pages, "FEWEST_TASKS", 1)
    slots = [planned(f"task-{task}", repeat=repeat) for task in range(5) for repeat in range(2)]
    record([(slot, Episode((), 1.0)) for slot in slots[:-1]] + [(slots[-1], Episode((), 0.5))])
    seen: list[str] = []
    viewed, page = client(), "/grid"
    while page:
        found = parse(viewed.get(page).text)
        assert "9/10" in found.text  # of all pages
        seen += [one.text for one in found.all("a") if "cell" in one.attributes.get("class", "")]
        page = next((one.attributes["href"] for one in found.all("a") if one.text == "Next"), "")
    assert seen == ["✓"] * 9 + [".50"]
    assert "task-4" in viewed.get("/grid?page=99").text


def test_a_grid_says_which_runs_it_leaves_out(bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [record([(planned(), Episode((), 1.0))])[0].path.name for _ in range(3)]
    viewed = client()

    def said(query: str = "") -> tuple[int, str]:
        page = parse(viewed.get(f"/grid{query}").text)
        notes = [one.text for one in page.all("p") if one.attributes.get("class") == "note"]
        return len(page.all("thead")[0].all("a")), " ".join(notes)

    assert said() == (3, "")
    monkeypatch.setattr(run_pages, "COLUMNS", 2)
    columns, note = said()
    assert columns == 2 and note.startswith("The newest 2 of 3 runs. Name others: /grid?run=RUN")
    assert said(f"?run={names[0]}&run={names[1]}") == (2, "")
    monkeypatch.setattr(run_pages, "MOST_RUNS", 2)
    columns, note = said()
    assert columns == 2 and "of 2 runs of this benchmark among the newest 2; 1 older is not read." in note


def test_pages_import_no_drawing_library() -> None:
    """Charts are inline SVG: matplotlib is for PNG files alone."""
    code = (
        "import sys; from starlette.testclient import TestClient; from mcp_bench.bridge.viewer.app import viewer;"
        "from mcp_bench.bridge.viewer.static_site import write_site; browser = TestClient(viewer());"
        "pages = ('/', '/grid', '/compare', '/tools', '/failures', '/reviews', '/training', '/data');"
        "assert {browser.get(page).status_code for page in pages} == {200};"
        "print([name for name in ('matplotlib', 'torch', 'pandas') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_a_large_result_is_cut_and_linked(bench_home: Path) -> None:
    large = "0123456789" * 1_000_000
    rows = json.dumps([{"deep": {"n": [number]}} for number in range(20_000)])
    calls = (("read", {"all": large}, large), ("list", {}, rows))
    folder, (episode,) = record([(planned(), Episode(calls))])
    page = f"/runs/{folder.path.name}/{episode}"
    viewed = client()
    text = viewed.get(page).text
    assert len(text) < 200_000
    assert "All of it, 10.0 MB" in text
    assert viewed.get(f"{page}/calls/1/result").text == large
    assert json.loads(viewed.get(f"{page}/calls/1/arguments").text) == {"all": large}
    assert viewed.get(f"{page}/calls/2/result").text == rows


def test_a_long_name_of_a_field_is_cut_and_linked(bench_home: Path) -> None:
    """In a tree and in a table, where fields whose names differ at the end would look alike."""
    long = "n" * 1_000
    results = [json.dumps({"deep": {long: {"a": 1}}}), json.dumps([{long: 1}, {long: 2}]), '{"short": 1}']
    folder, (episode,) = record([(planned(), Episode([("read", {}, result) for result in results]))])
    page = f"/runs/{folder.path.name}/{episode}"
    shown = parse(client().get(page).text)
    cut = [one for one in shown.all("p") if one.attributes.get("class") == "cut"]
    assert [one.all("a")[0].attributes["href"] for one in cut] == [
        f"{page}/calls/{number}/result" for number in (1, 2)
    ]
    assert shown.text.count("n" * 200 + "…") == 2 and "n" * 201 not in shown.text


def test_no_value_makes_a_page_large(bench_home: Path) -> None:
    """Whoever names a tool, a task or a model by a megabyte does not stop the browser with it."""
    large = "<b>é</b> " * 50_000
    call = ToolCall(id="a", function=FunctionCall(name=large, arguments={large: large}))
    spoken = [
        Message(role="assistant", content=large, reasoning=large, tool_calls=[call]),
        Message(role="tool", tool_call_id="a", name=large, content=large),
    ]
    texts = {"domain": large, "prompt": large, "system": large}
    slots = [planned(f"task {large}", repeat=repeat).model_copy(update=texts) for repeat in range(2)]
    story = Episode(
        [(large, {large: large}, f"!{large}")], 0.5, transcript=spoken, detail=large, assertion=large
    )
    broken = Episode([], None, invalid=large)
    settings = {"options": {large: large}}
    folder, (first, second) = record(
        [(slots[0], story), (slots[1], broken)], agent=large, model=large, benchmark=large, settings=settings
    )
    run, viewed = folder.path.name, client()
    assert viewed.get("/search?q=é").status_code == 200  # the index is made
    for page in PAGES:
        names = {"run": run, "other": run, "first": first, "second": second, "third": second, "last": second}
        assert len(viewed.get(page.format(**names)).content) < 600_000, page


def test_a_call_can_be_copied(bench_home: Path) -> None:
    folder, (episode,) = record([(planned(), Episode((("pay", {"to": "it's <me>", "n": None}, "ok"),)))])
    base, viewed = f"/runs/{folder.path.name}/{episode}/calls/1", client()
    assert (
        viewed.get(f"{base}/python").text
        == "await session.call_tool('pay', {'to': \"it's <me>\", 'n': None})"
    )
    sent = json.loads(viewed.get(f"{base}/json").text)
    assert sent["params"] == {"name": "pay", "arguments": {"to": "it's <me>", "n": None}}
    assert "'\"'\"'" in viewed.get(f"{base}/curl").text
    for missing in (f"{base}/other", base.replace("/1", "/2") + "/json", f"{base}/images/0"):
        assert viewed.get(missing).status_code == 404


def test_frames_are_the_exact_bytes(bench_home: Path) -> None:
    folder, (episode,) = record([(planned(), Episode((("pay", {}, "ok"),)))])
    base, viewed = f"/runs/{folder.path.name}/{episode}/frames", client()
    (link, *_) = [a.attributes["href"] for a in parse(f"<p>{viewed.get(base).text}</p>").all("a")]
    frame = viewed.get(link)
    assert json.loads(frame.content)["params"]["name"] == "pay"
    assert frame.headers["content-type"].startswith("text/plain")
    assert "sandbox" in frame.headers["content-security-policy"]


def test_a_review_is_stored_and_compared(bench_home: Path) -> None:
    run, (first, second, *_) = hostile_home()
    viewed = client()
    for episode, verdict in ((first, "bad"), (second, "bad")):
        sent = viewed.post(
            f"/runs/{run}/{episode}/review", data={"verdict": verdict, "reason": "why"}, headers=OWN
        )
        assert sent.status_code == 303
    assert {one.verdict for one in Reviews().all().values()} == {"bad"}
    assert (bench_home / "notes.db").stat().st_mode & 0o777 == 0o600
    assert "agree with the grader on 1 of 2 (50 %)" in parse(viewed.get("/reviews").text).text
    viewed.post(f"/runs/{run}/{first}/review", data={"verdict": "", "reason": ""}, headers=OWN)
    assert list(Reviews().all()) == [second]
    assert viewed.post(f"/runs/{run}/{first}/review", data={"verdict": "x"}, headers=OWN).status_code == 400


def test_tags_and_note_are_edited(bench_home: Path) -> None:
    run, _ = hostile_home()
    viewed = client()
    sent = viewed.post(f"/runs/{run}/annotations", data={"tags": "one, two", "note": "n"}, headers=OWN)
    assert sent.status_code == 303
    assert "two" in viewed.get("/?q=one").text
    assert "No run matches" in viewed.get("/?q=three").text


def test_saving_a_form_again_changes_no_word(bench_home: Path) -> None:
    """A browser sends line breaks as CRLF, and the next save stores what a field shows."""
    folder, (episode,) = record([(planned(), Episode())])
    run, viewed = f"/runs/{folder.path.name}", client()
    text = "first\nsecond \U0001f468\u200d\U0001f4bb <b>&amp; " + "long " * 900
    fields = ((run, "annotations", "note"), (f"{run}/{episode}", "review", "reason"))
    for page, form, name in fields:
        shown = text
        for _ in range(2):
            sent = {"verdict": "good", name: shown.replace("\n", "\r\n")}
            assert viewed.post(f"{page}/{form}", data=sent, headers=OWN).status_code == 303
            (field,) = (
                one for one in parse(viewed.get(page).text).all("textarea") if one.attributes["name"] == name
            )
            shown = "".join(map(str, field.children))
    stored = Reviews().of(episode)
    assert stored is not None
    assert [read_annotations(folder.path).note, stored.reason] == [text.strip()] * 2


def test_only_what_is_recorded_can_be_stopped(bench_home: Path) -> None:
    run, _ = hostile_home()
    answer = client().post(f"/runs/{run}/stop", headers=OWN)
    assert answer.status_code == 400
    assert "nothing to stop" in answer.text


def test_looking_changes_no_recording(bench_home: Path) -> None:
    run, episodes = hostile_home()
    folder = bench_home / "runs" / run
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    viewed = client()
    for page in PAGES:
        viewed.get(
            page.format(run=run, other=run, first=episodes[0], second=episodes[1], third="x", last="y")
        )
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


def test_a_damaged_run_hides_no_other(bench_home: Path) -> None:
    good, _ = hostile_home()
    bad, _ = hostile_home()
    (bench_home / "runs" / bad / "recordings.db").write_bytes(b"not a database" * 1000)
    viewed = client()
    text = viewed.get("/").text
    assert f"/runs/{good}" in text
    assert bad in text
    assert viewed.get(f"/runs/{bad}").status_code == 200
    assert viewed.get("/failures").status_code == 200


def test_an_id_is_a_permanent_link(hostile_again: Hostile) -> None:
    for page in ("/episodes/{first}", "/search?q={first}"):
        found = hostile_again.get(page).headers["location"]
        assert found == f"/runs/{hostile_again.run}/{hostile_again.episodes[0]}"


def test_a_conversation_as_markdown(bench_home: Path) -> None:
    run, (first, *_) = hostile_home()
    text = client().get(f"/runs/{run}/{first}/markdown").text
    assert "\x1b" not in text and "\u202e" not in text
    assert "## User\n\nDo it." in text and "## Turn 1\n\n> I think" in text
    assert "Result of call 1 (tool_error):" in text
    page, _ = talked()
    assert "## User\n\nSome tea.\n\n## Turn 2" in client().get(f"{page}/markdown").text
    fenced = [("say", {"it": "```"}, "a\n````\nb")]
    folder, (episode,) = record([(planned(), Episode(fenced))])
    text = client().get(f"/runs/{folder.path.name}/{episode}/markdown").text
    assert '````json\n{\n "it": "```"\n}\n````' in text and "`````\na\n````\nb\n`````" in text
    answer = client().get(f"/runs/{run}/{first}/messages/2")
    assert answer.text.startswith("I say <script>") and "sandbox" in answer.headers["content-security-policy"]
    assert client().get(f"/runs/{run}/{first}/messages/99").status_code == 404
