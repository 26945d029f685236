"""Parts of a run: episodes that another process recorded, taken into the run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.records import EpisodeEnd, now_us
from mcp_bench.recorder.runs.copied_rows import OF_GRADES
from mcp_bench.recorder.runs.parts import (
    last_frame,
    new_part,
    resume_run,
    take_in,
    take_in_all,
)
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import PARTS, RunFolder
from mcp_bench.recorder.store import frame_log
from mcp_bench.recorder.store.keys import own_key
from mcp_bench.recorder.store.signatures import OF_EPISODE
from mcp_bench.recorder.taint import Scan
from mcp_bench.recorder.verify.verify import verify
from mcp_bench.servers.home import home
from tests.support import recorded
from tests.support.recorded import (
    THREE_TASKS,
    TWO_CALLS,
    begin,
    kill,
    large,
    part_of,
    planned,
    play,
    request,
    response,
    run_info,
)

pytestmark = pytest.mark.component

PLAN, STORY = THREE_TASKS, TWO_CALLS


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
    take_in_all(run)
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


def test_the_frames_of_episodes_that_overlapped_are_found(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long episode began first, and is stored behind the shorter ones: the times of frames fall."""

    def at(second: int) -> None:
        for module in (frame_log, recorded):
            monkeypatch.setattr(module, "now_us", lambda: (1_000_000 + second) * 1_000_000)

    frames = {}
    with part_of(run) as one, part_of(run) as two:
        at(0)
        long = begin(one, PLAN[0])
        for number in range(1, 40):
            one.recording.store_frame(long, 1, "client", request(number, "transfer", {"amount": number}))
        for attempt, second in enumerate((200, 400, 550), 1):
            at(second)
            short = play(two, PLAN[1], STORY, attempt)
            frames[short] = bodies(two.path, short)
            take_in(run, two.path, {short})
        at(600)
        one.recording.end_episode(long, EpisodeEnd(termination="agent_exit", ended_us=recorded.now_us()), [])
        frames[long] = bodies(one.path, long)
        take_in(run, one.path, {long})
    at(700)
    own = play(run, PLAN[2], STORY)
    run.close()
    assert [len(found) for found in frames.values()] == [4, 4, 4, 39]
    assert {episode: bodies(run.path, episode) for episode in frames} == frames
    assert len(bodies(run.path, own)) == 4
    with RunReader(run.path) as reader:
        reader.find_frames()
        found = {episode: [body for *_, body in reader.frame_bodies(episode)] for episode in frames}
        assert found == frames
        assert list(reader.frame_bodies("ep_without_frames")) == []


def test_a_large_frame_and_flags_are_taken_in(run: RunFolder) -> None:
    with part_of(run) as part:
        episode = begin(part, PLAN[0])
        part.recording.store_frame(episode, 1, "client", request(1, "transfer", {}))
        part.recording.store_frame(episode, 1, "server", large(response(1, "x" * (9 << 20))))
        part.recording.flag(episode, "wrong_token", "somebody")
        part.recording.flag(None, "flood", "nobody")
    stored = bodies(part.path, episode)
    take_in_all(run)
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
            broken.setattr(run.grades, "attached", lambda _: (_ for _ in ()).throw(StorageError("full")))
            with pytest.raises(StorageError, match="full"):
                take_in(run, part.path, {episode})
        assert run.done() == set()
        (part.path / "logs" / f"{episode}.stdout.log").write_text("said")
    run.close()
    with resume_run(run.id) as again:
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
        ("UPDATE seals SET contents = '{}'", "the seal of"),
        ("DELETE FROM frames WHERE id = 2", "frames before the frame 3 are missing"),
        ("DELETE FROM frames WHERE id = (SELECT max(id) FROM frames)", "is missing or was changed"),
        ("DELETE FROM frames", "is missing or was changed"),
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


def state(run: RunFolder) -> str:
    return verify(run.path, own_key()).state


def entries() -> int:
    """Return the number of entries in the ledger."""
    return len((home() / "ledger").read_bytes().splitlines())


def test_a_missing_frame_is_noticed_while_others_are_recorded(run: RunFolder) -> None:
    with part_of(run) as part:
        play(part, PLAN[0], STORY)
        after = last_frame(part.path)
        second = play(part, PLAN[1], STORY)
        query(part.path / "recordings.db", f"DELETE FROM frames WHERE id = {after + 1}")
        with pytest.raises(StorageError, match=f"frames before the frame {after + 2} are missing"):
            take_in(run, part.path, {second}, after=after)
    assert run.recording.attempts() == []


def test_a_reader_takes_in_what_a_killed_run_has_left(run: RunFolder) -> None:
    with part_of(run) as part:
        episode = play(part, PLAN[0], STORY)
    kill(run)
    before = entries()
    assert state(run) == "open"
    with RunReader(run.path) as reader:
        assert [(one.id, one.partial) for one in reader.episodes()] == [(episode, 1.0)]
    assert not (run.path / PARTS).exists()
    assert (state(run), entries()) == ("open", before)
    with resume_run(run.id) as again:
        assert again.done() == {episode}
    assert state(run) == "verified"


def test_a_read_waits_for_no_referee_that_is_ending(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    with part_of(run) as part, part_of(run) as ending:
        ended = play(part, PLAN[0], STORY)
        begin(ending, PLAN[1])
        part.close()
        kill(run)
        with RunReader(run.path) as reader:
            assert reader.episode_ids() == [ended]
        assert "has not ended yet" in caplog.text
        assert [path.name for path in (run.path / PARTS).iterdir()] == [ending.path.name]


@pytest.mark.parametrize("killed", [True, False])
def test_parts_hide_no_change_of_their_run(run: RunFolder, killed: bool) -> None:
    """An empty folder of parts, beside a run from which somebody took an episode and every seal of the run."""
    play(run, PLAN[0], STORY)
    gone = play(run, PLAN[1], STORY)
    kill(run) if killed else run.close()
    for file, tables in (("recordings.db", OF_EPISODE), ("grades.db", OF_GRADES)):
        for table in tables:
            query(run.path / file, f"DELETE FROM {table} WHERE episode = '{gone}'")
        query(run.path / file, f"DELETE FROM seals WHERE subject IN ('{run.id}', '{gone}')")
    query(run.path / "recordings.db", f"DELETE FROM frames WHERE episode = '{gone}'")
    query(run.path / "recordings.db", f"DELETE FROM episodes WHERE id = '{gone}'")
    found = state(run)
    assert found == ("open" if killed else "changed")  # the ledger has the seal of a run that was closed
    before = entries()
    (run.path / PARTS).mkdir()
    for _ in range(2):
        assert state(run) == found
        with RunReader(run.path) as reader:
            assert len(reader.episode_ids()) == 1
    assert entries() == before


def test_a_part_that_cannot_be_taken_in_keeps_back_no_other(
    run: RunFolder, caplog: pytest.LogCaptureFixture
) -> None:
    with part_of(run) as bad, part_of(run) as good:
        play(bad, PLAN[0], STORY)
        episode = play(good, PLAN[1], STORY)
    query(bad.path / "recordings.db", "UPDATE frames SET body = 'other' WHERE id = 1")
    with pytest.raises(StorageError, match="move this folder away"):
        take_in_all(run)
    assert run.done() == {episode}
    run.close()
    assert state(run) == "open"  # episodes are missing
    before = entries()
    for _ in range(3):
        with RunReader(run.path) as reader:
            assert reader.episode_ids() == [episode]
    assert "move this folder away" in caplog.text
    assert (state(run), entries()) == ("open", before)
    bad.path.rename(run.path.with_name("elsewhere"))
    resume_run(run.id).close()
    assert state(run) == "verified"


def test_a_sealed_run_takes_in_no_part(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    play(run, PLAN[0], STORY)
    run.close()
    with RunFolder.create(run_info(PLAN[1])) as other:
        play(other, PLAN[1], STORY)
    (run.path / PARTS).mkdir()
    other.path.rename(run.path / PARTS / "1")
    before = entries()
    with RunReader(run.path) as reader:
        assert len(reader.episode_ids()) == 1
    assert "was put beside it" in caplog.text
    assert (state(run), entries()) == ("verified", before)


def test_a_part_that_never_began_is_removed(run: RunFolder) -> None:
    new_part(run)
    take_in_all(run)
    assert not (run.path / PARTS).exists()
