"""Parts of a run: episodes that another process recorded, taken into the run."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import now_us
from mcp_bench.recorder.store.keys import own_key
from mcp_bench.recorder.store.parts import PARTS, last_frame, new_part, take_in, take_in_all
from mcp_bench.recorder.store.reader import RunReader
from mcp_bench.recorder.store.run_folder import RunFolder
from mcp_bench.recorder.taint import Scan
from mcp_bench.recorder.verify.verify import verify
from tests.support.recorded import Episode, begin, large, planned, play, request, response, run_info

pytestmark = pytest.mark.component

PLAN = [planned("user_task_0"), planned("user_task_1"), planned("user_task_2")]
STORY = Episode(
    calls=[("transfer", {"amount": 1}, "one"), ("transfer", {"amount": 2}, "!two")], rewards={1: 0.5}
)


@pytest.fixture
def run() -> Iterator[RunFolder]:
    with RunFolder.create(run_info(*PLAN)) as folder:
        yield folder


def part_of(run: RunFolder) -> RunFolder:
    return RunFolder(new_part(run), run.info)


def bodies(path: Path, episode: str) -> list[bytes]:
    with RunReader(path) as reader:
        return [body for _, _, body in reader.frame_bodies(episode)]


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db, db:
        return db.execute(sql).fetchall()


def test_episodes_of_two_parts_become_one_verified_run(run: RunFolder) -> None:
    with part_of(run) as one, part_of(run) as two:
        first = play(one, PLAN[0], STORY)
        one.grades.put_scan(first, Scan("clean"), now_us())
        take_in(run, one.path, {first})
        second = play(two, PLAN[1], STORY)
        after = last_frame(one.path)
        third = play(one, PLAN[2], STORY)
        take_in(run, two.path, {second})
        take_in(run, one.path, {third}, after=after)
        frames = {
            episode: bodies(part.path, episode)
            for part, episode in ((one, first), (two, second), (one, third))
        }
    take_in_all(run, RunFolder.reopen)
    own = play(run, planned("user_task_3"), STORY)  # numbers go on
    run.close()
    assert not (run.path / PARTS).exists()
    assert verify(run.path, own_key()).state == "verified"
    with RunReader(run.path) as reader:
        assert {one.id: one.partial for one in reader.episodes()} == dict.fromkeys(
            [first, second, third, own], 1.0
        )
        for episode in (first, second, third):
            assert bodies(run.path, episode) == frames[episode] != []
            assert [call.outcome for call in reader.calls(episode)] == ["ok", "tool_error"]
            assert next(message.role for message in reader.messages(episode)) == "user"
            assert reader.rewards(episode) == {1: 0.5}
        assert reader.episode(first).taint == "clean"
    sql = "SELECT count(*) FROM calls c JOIN frames f ON f.id = c.request_frame AND f.episode = c.episode"
    assert query(run.path / "recordings.db", sql) == [(8,)]


def test_a_large_frame_and_flags_are_taken_in(run: RunFolder) -> None:
    with part_of(run) as part:
        episode = begin(part, PLAN[0])
        part.recording.store_frame(episode, 1, "client", request(1, "transfer", {}))
        part.recording.store_frame(episode, 1, "server", large(response(1, "x" * (9 << 20))))
        part.recording.flag(episode, "wrong_token", "somebody")
        part.recording.flag(None, "flood", "nobody")
    stored = bodies(part.path, episode)
    take_in_all(run, RunFolder.reopen)
    run.close()
    assert bodies(run.path, episode) == stored
    assert sum(map(len, stored)) > 9 << 20
    with RunReader(run.path) as reader:
        assert [flag.kind for flag in (*reader.flags(episode), *reader.flags(None))] == [
            "wrong_token",
            "flood",
        ]
        assert reader.episode(episode).invalid == "referee_died"
    assert verify(run.path, own_key()).state == "verified"


def test_what_was_interrupted_is_completed_once(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    with part_of(run) as part:
        episode = play(part, PLAN[0], STORY)
        with monkeypatch.context() as broken:
            broken.setattr(run.grades, "with_attached", lambda _: (_ for _ in ()).throw(StorageError("full")))
            with pytest.raises(StorageError, match="full"):
                take_in(run, part.path, {episode})
        assert run.done() == set()
        (part.path / "logs" / f"{episode}.stdout.log").write_text("said")
    run.close()
    with RunFolder.resume(run.id) as again:
        assert again.done() == {episode}
        assert [number for _, number in again.pending()] == [1, 1]
        assert again.log_path(episode, "stdout").read_text() == "said"
    assert verify(run.path, own_key()).state == "verified"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ("UPDATE frames SET body = 'other' WHERE id = 1", "the row 1 of frames was changed"),
        ("UPDATE episodes SET answer = 'other'", "of episodes was changed"),
        ("DELETE FROM messages", "are missing or were added"),
        ("DELETE FROM calls WHERE id = 2", "are missing or were added"),
    ],
)
def test_a_changed_part_is_not_taken_in(run: RunFolder, change: str, text: str) -> None:
    with part_of(run) as part:
        episode = play(part, PLAN[0], STORY)
    query(part.path / "recordings.db", change)
    with pytest.raises(StorageError, match=text):
        take_in(run, part.path)
    assert run.recording.attempts() == []
    assert episode in {name for (name,) in query(part.path / "recordings.db", "SELECT id FROM episodes")}


def test_a_reader_takes_in_what_a_killed_run_has_left(run: RunFolder) -> None:
    with part_of(run) as part:
        episode = play(part, PLAN[0], STORY)
    run.close()
    with RunReader(run.path) as reader:
        assert [(one.id, one.partial) for one in reader.episodes()] == [(episode, 1.0)]


def test_a_part_that_never_began_is_removed(run: RunFolder) -> None:
    new_part(run)
    take_in_all(run, RunFolder.reopen)
    assert not (run.path / PARTS).exists()
