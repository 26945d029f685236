"""Attempts that were recorded on other machines, moved here, and taken into their run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.runs.parts import (
    new_part,
    resume_run,
    take_in_all,
    take_in_moved,
)
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import MOVED, RunFolder
from mcp_bench.recorder.store.keys import own_key
from mcp_bench.recorder.verify.verify import verify
from tests.support import recorded
from tests.support.recorded import (
    THREE_TASKS,
    TWO_CALLS,
    begin,
    part_of,
    planned,
    play,
)

pytestmark = pytest.mark.component

PLAN, STORY = THREE_TASKS, TWO_CALLS


def state(run: RunFolder) -> str:
    return verify(run.path, own_key()).state


def moved_to(run: RunFolder, part: Path, name: str, *story: PlannedEpisode) -> tuple[Path, list[str]]:
    """Record episodes in a folder of their own, and move it to a part of a run as another machine's."""
    with RunFolder(new_part(run), run.info) as made:
        episodes = [play(made, one, STORY) for one in story]
    (part / MOVED).mkdir(exist_ok=True)
    return made.path.rename(part / MOVED / name), episodes


def test_a_moved_folder_that_cannot_be_taken_in_keeps_back_no_other(
    run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    part = new_part(run)
    bad, _ = moved_to(run, part, "1", PLAN[0])
    _, [episode] = moved_to(run, part, "2", PLAN[1])
    with closing(sqlite3.connect(bad / "recordings.db")) as db, db:
        db.execute("UPDATE frames SET body = 'other' WHERE id = 1")
    with pytest.raises(StorageError, match="move this folder away"):
        take_in_all(run)
    assert run.done() == {episode}
    assert [path.name for path in (part / MOVED).iterdir()] == ["1"]
    run.close()
    assert state(run) == "open"  # episodes are missing
    with RunReader(run.path) as reader:
        assert reader.episode_ids() == [episode]
    assert "move this folder away" in caplog.text
    bad.rename(run.path.with_name("elsewhere"))
    resume_run(run.id).close()
    assert state(run) == "verified"


def test_flags_without_an_episode_come_with_a_moved_folder(run: RunFolder) -> None:
    with part_of(run) as made:
        episode = play(made, PLAN[0], STORY)
        made.recording.flag(None, "flood", "nobody")
    take_in_moved(run, made.path, (PLAN[0], 1))
    assert not made.path.exists()
    assert run.done() == {episode}
    run.close()
    with RunReader(run.path) as reader:
        assert [flag.kind for flag in reader.flags(None)] == ["flood"]
    assert state(run) == "verified"


@pytest.mark.parametrize(
    ("plan", "order", "text"),
    [
        ([PLAN[0]], (PLAN[1], 1), "is not the attempt that was ordered"),
        ([PLAN[0]], (PLAN[0], 2), "is not the attempt that was ordered"),
        ([planned("other")], None, "is not planned in this run"),
        ([PLAN[0], PLAN[1]], (PLAN[0], 1), "it has several attempts"),
    ],
)
def test_a_moved_folder_has_what_was_ordered(
    run: RunFolder, plan: list[PlannedEpisode], order: tuple[PlannedEpisode, int] | None, text: str
) -> None:
    folder, _ = moved_to(run, new_part(run), "1", *plan)
    for given in (order, None):  # the second time as when the run ends
        with pytest.raises(StorageError, match=text):
            take_in_moved(run, folder, given)
    assert run.recording.attempts() == []


def test_a_moved_folder_names_no_files_of_others(
    run: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "other.txt").write_text("mine")
    with monkeypatch.context() as named:
        named.setattr(recorded, "new_id", lambda _: str(tmp_path / "other"))
        folder, _ = moved_to(run, new_part(run), "1", PLAN[0])
    with pytest.raises(StorageError, match="is no id of an episode"):
        take_in_moved(run, folder, (PLAN[0], 1))
    assert (tmp_path / "other.txt").read_text() == "mine"


def test_a_moved_folder_grades_no_episode_of_its_run(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    own = begin(run, PLAN[0])
    with monkeypatch.context() as named:
        named.setattr(recorded, "new_id", lambda _: own)
        folder, _ = moved_to(run, new_part(run), "1", PLAN[0])
    with pytest.raises(StorageError, match="this run has another episode with the id"):
        take_in_moved(run, folder, (PLAN[0], 1))
    assert run.done() == set()


def test_a_moved_folder_is_completed(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, [episode] = moved_to(run, new_part(run), "1", PLAN[0])
    with monkeypatch.context() as broken:
        broken.setattr(run.grades, "attached", lambda _: (_ for _ in ()).throw(StorageError("full")))
        with pytest.raises(StorageError, match="full"):
            take_in_moved(run, folder, (PLAN[0], 1))
    assert run.done() == set()
    take_in_all(run)
    assert run.done() == {episode}
    run.close()
    assert state(run) == "verified"
