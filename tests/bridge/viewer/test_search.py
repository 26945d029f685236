"""Search over all conversations, and what its index holds."""

from __future__ import annotations

import fcntl
import shutil
import sqlite3
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.bridge.viewer.pages import search_page
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.bridge.viewer.search_index import FILE, LOCK, SearchIndex
from mcp_bench.recorder.conversations.user_turns import REPLY_TOOL
from mcp_bench.recorder.runs.annotations import annotate
from mcp_bench.recorder.runs.run_folder import RunFolder, remove_run
from mcp_bench.recorder.trajectory import FunctionSchema, Message, ToolSchema
from tests.support.pages.html_page import parse
from tests.support.pages.viewer import client
from tests.support.recorded import TOOL, Episode, planned, play, record, run_info

pytestmark = pytest.mark.component


def said(text: str) -> Message:
    return Message(role="assistant", content=text)


def found(index: SearchIndex, words: str) -> list[tuple[str, str]]:
    index.refresh(60)
    return [(hit.episode, hit.kind) for hit in index.search(words, 50)]


def test_all_words_must_occur(bench_home: Path) -> None:
    calls = (("transfer_money", {"to": "Zoë"}, "the balance is low"),)
    _, (episode,) = record([(planned(), Episode(calls))])
    index = SearchIndex(Library())
    assert found(index, "balance low") == [(episode, "result")]
    assert found(index, "transfer_mon") == [(episode, "call")]
    assert found(index, "zoe") == [(episode, "call")]
    assert found(index, "balance high") == []
    assert found(index, '" OR * NEAR(') == []


def test_attempts_at_a_task_are_those_at_this_task(bench_home: Path) -> None:
    tasks = ("door.1.train.1", "door.1.train.10", "door.1")
    record([(planned(task), Episode()) for task in tasks])
    index, viewed = SearchIndex(Library()), client()
    index.refresh(60)
    assert {hit.task for hit in index.search("door.1", 50)} == {*tasks}
    for task in tasks:
        assert [(hit.task, hit.kind) for hit in index.search(task, 50, task=task)] == [(task, "task")]
        shown = parse(viewed.get(f"/search?task={task}").text)
        assert [one.text for one in shown.all("b")] == [task]


def test_a_page_of_a_task_stays_one_while_the_index_is_made(
    bench_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It asks for itself again, and not for all messages with these words."""
    record([(planned("door.1.train.1"), Episode())])
    index, viewed = SearchIndex(Library()), client()
    index.refresh(60)
    monkeypatch.setattr(search_page, "WAIT_SECONDS", 0)
    with (bench_home / "view" / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as another viewer does
        for page in ("/search?task=door.1.train.1", "/search?q=door&run=run_1"):
            asks = [one for one in parse(viewed.get(page).text).all("div") if "hx-trigger" in one.attributes]
            assert [one.attributes["hx-get"] for one in asks] == [page]
    monkeypatch.setattr(search_page, "WAIT_SECONDS", 60)
    assert "hx-trigger" not in viewed.get("/search?task=door.1.train.1").text


def test_a_hit_leads_to_its_message_after_turns_of_a_user(bench_home: Path) -> None:
    """Calls of the tool that agents reply with are turns of the user on the page, so they count otherwise."""
    tool = ToolSchema(function=FunctionSchema(name=REPLY_TOOL, description="", parameters={}))
    replies = [
        (REPLY_TOOL, {"message": f"What colour is door {at}?"}, f"Door {at} is grey.") for at in range(3)
    ]
    calls = [*replies, ("paint", {"colour": "vermilion"}, "painted")]
    with RunFolder.create(run_info()) as folder:
        story = Episode(calls, transcript=[Message(role="assistant", content="Finished.")])
        episode = play(folder, planned(), story, tools=[TOOL, tool])
    index = SearchIndex(Library())
    index.refresh(60)
    browser, page = client(), f"/runs/{folder.path.name}/{episode}"
    shown = parse(browser.get(page).text)
    for words, text in (
        ("vermilion", "vermilion"),
        ("door 2 grey", "Door 2 is grey."),
        ("finished", "Finished."),
    ):
        (hit,) = index.search(words, 50)
        (turn,) = (one for one in shown.all("section") if one.attributes.get("id") == f"m{hit.position}")
        assert text in turn.text, words


def test_new_episodes_are_added_to_the_index(bench_home: Path) -> None:
    index, slots = SearchIndex(Library()), [planned("one"), planned("two")]
    with RunFolder.create(run_info(*slots)) as folder:
        first = play(folder, slots[0], Episode((("look", {}, "amber"),)))
        assert found(index, "amber") == [(first, "result")]
        second = play(folder, slots[1], Episode((("look", {}, "amber"),)))
        folder.recording.recorded_calls(second)
        assert sorted(found(index, "amber")) == sorted([(first, "result"), (second, "result")])
    remove_run(folder.path)
    assert found(index, "amber") == []


def test_deleted_runs_leave_the_index_together(bench_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """To remove a run, SQLite reads the whole index."""
    folders = [record([(planned(), Episode((("look", {}, "amber"),)))])[0] for _ in range(3)]
    index = SearchIndex(Library())
    assert len(found(index, "amber")) == 3
    removals: list[set[str]] = []
    forget = SearchIndex._forget

    def counted(own: SearchIndex, db: sqlite3.Connection, runs: Collection[str]) -> None:
        removals.append(set(runs))
        forget(own, db, runs)

    monkeypatch.setattr(SearchIndex, "_forget", counted)
    for folder in folders[:2]:
        remove_run(folder.path)
    assert len(found(index, "amber")) == 1
    assert removals == [{folder.path.name for folder in folders[:2]}]


def test_the_index_is_private_and_has_no_grades(bench_home: Path) -> None:
    record([(planned(), Episode(partial=0.25, detail="UNMET-ASSERTION"))])
    index = SearchIndex(Library())
    assert found(index, "sent the money")
    folder = bench_home / "view"
    assert folder.stat().st_mode & 0o777 == 0o700
    stored = b"".join(path.read_bytes() for path in folder.iterdir())
    assert b"sent the money" in stored
    assert b"UNMET-ASSERTION" not in stored
    assert b"SEALED-STATE" not in stored


def test_a_deleted_index_is_made_again(bench_home: Path) -> None:
    record([(planned(), Episode())])
    assert found(SearchIndex(Library()), "money")
    for path in (bench_home / "view").iterdir():
        path.unlink()
    assert found(SearchIndex(Library()), "money")


@pytest.mark.parametrize("keep", [0, 4096])
def test_a_damaged_index_is_made_again(bench_home: Path, keep: int) -> None:
    """A file that is no database is seen when it is opened; damaged pages, when something is looked for."""
    record([(planned(), Episode())])
    (hit,) = found(SearchIndex(Library()), "money")
    path = bench_home / "view" / FILE
    whole = path.read_bytes()
    path.write_bytes(whole[:keep] + b"\xa5" * (len(whole) - keep))
    index = SearchIndex(Library())
    again = found(index, "money") or found(index, "money")
    assert again == [hit]
    assert index.problem == ""


def test_an_index_that_cannot_be_written_is_a_problem(bench_home: Path) -> None:
    record([(planned(), Episode())])
    (bench_home / "view" / FILE).mkdir(parents=True)
    answer = client().get("/search?q=money")
    assert answer.status_code == 200
    assert "The search index cannot be updated: unable to open database file" in parse(answer.text).text


def test_a_damaged_episode_hides_no_other(bench_home: Path) -> None:
    """Neither those of older runs nor those of its own, and the page says what was left out, each time."""
    record([(planned("old"), Episode(answer="", transcript=[said("amber")]))])
    damaged, (first, _, third) = record(
        [(planned(name), Episode(transcript=[said("amber")])) for name in ("a", "b", "c")]
    )
    with closing(sqlite3.connect(damaged.path / "recordings.db")) as db, db:
        ids = [episode for (episode,) in db.execute("SELECT id FROM episodes ORDER BY id")]
        db.execute("UPDATE messages SET tool_calls = '{' WHERE episode = ? AND role = 'assistant'", [ids[1]])
    index, viewed = SearchIndex(Library()), client()
    for _ in range(2):
        hits = found(index, "amber")
        assert len(hits) == len(set(hits)) == 3 and {first, third} < {episode for episode, _ in hits}
        (problem,) = index.unreadable
        assert "has a damaged row" in problem and ids[1] in problem
        text = parse(viewed.get("/search?q=amber").text).text
        assert "3 messages" in text and "has a damaged row" in text
    remove_run(damaged.path)
    assert len(found(index, "amber")) == 1
    assert index.unreadable == []


def test_one_viewer_adds_to_the_index_and_others_wait(bench_home: Path) -> None:
    record([(planned(), Episode())])
    first, second = SearchIndex(Library()), SearchIndex(Library())
    assert found(first, "money")
    record([(planned("other"), Episode())])
    with (bench_home / "view" / LOCK).open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as another viewer does
        second.refresh(0)
        assert not second.complete
        assert len(second.search("money", 50)) == 1  # what there is can be found meanwhile
    assert len(found(second, "money")) == 2
    assert len(found(first, "money")) == 2


def test_a_run_is_found_once_although_it_was_renamed_or_copied(bench_home: Path) -> None:
    (renamed, (one,)), (copied, (other,)) = (
        record([(planned(), Episode((("look", {}, "a lighthouse"),)))]) for _ in range(2)
    )
    path = renamed.path.rename(renamed.path.with_name("run_kept"))
    shutil.copytree(copied.path, copied.path.with_name(f"{copied.id}_bak"))
    index = SearchIndex(Library())
    assert sorted(found(index, "lighthouse")) == [(one, "result"), (other, "result")]
    annotate(path, add=["tag"])  # its files have changed
    assert sorted(found(index, "lighthouse")) == [(one, "result"), (other, "result")]
    assert [problem.split(":")[0] for problem in index.unreadable] == [f"{copied.id}_bak"]
    page = client().get("/search?q=lighthouse").text
    assert all(f"/runs/{place}" in page for place in (f"run_kept/{one}", f"{copied.id}/{other}"))
