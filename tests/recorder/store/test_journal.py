"""Stored frames survive `kill -9`: the next process that opens the run finds them in the journal."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from hashlib import sha256
from pathlib import Path

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.errors import DiskFullError, StorageError
from mcp_bench.recorder.frames.body import Body
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.store.journal import NAMES, Entry, FrameEntry, Journal, RanEntry, encode_frame, read
from tests.support.recorded import begin, large, request, response, run_info

pytestmark = [pytest.mark.anyio, pytest.mark.component]
DURABILITIES = pytest.mark.parametrize("durability", ["normal", "full"])


def killed_now(folder: RunFolder, into: Path) -> Path:
    """Return a copy of a run as `kill -9` would leave it now."""
    into = into / "killed"
    shutil.rmtree(into, ignore_errors=True)
    with folder.recording.writer.lock:  # SQLite's files are copied between its commits
        return Path(shutil.copytree(folder.path, into / folder.id))


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    """Query a run's database, as any SQLite tool would."""
    with closing(sqlite3.connect(f"file:{path}/recordings.db?mode=ro", uri=True)) as db:
        return db.execute(sql).fetchall()


def calls_found(path: Path) -> list[tuple[object, ...]]:
    """Open a run once for reading, and return its calls."""
    RunReader(path).close()
    assert query(path, "PRAGMA integrity_check") == [("ok",)]
    assert query(path, "PRAGMA foreign_key_check") == []
    return query(path, "SELECT rpc_id, outcome, execution FROM calls ORDER BY CAST(rpc_id AS INTEGER)")


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=20,
)
@given(
    plan=st.lists(
        st.tuples(
            st.integers(0, 4),
            st.booleans(),
            st.integers(1, 3),
            st.sampled_from(["", "read", "flush", "fail", "cancel"]),
        ),
        min_size=1,
        max_size=8,
    ),
    full=st.booleans(),
)
def test_stored_frames_survive_a_kill_at_any_moment(
    tmp_path: Path, bench_home: Path, plan: list[tuple[int, bool, int, str]], full: bool
) -> None:
    with RunFolder.create(run_info()) as folder:
        recording = folder.recording
        recording.set_durability("full" if full else "normal")
        episode = begin(folder, folder.info.plan[0])
        missing: list[int] = []

        async def store(number: int, turns: int, is_large: bool, count: int, then: str) -> None:
            for _ in range(turns):
                await checkpoint()
            ids = [number * 10 + n for n in range(count)]
            bodies: list[Body] = [request(rpc_id, "tool", {}) for rpc_id in ids]
            if is_large:
                bodies[-1] = large(request(ids[-1], "tool", {"text": "x" * 1000}))
            with anyio.CancelScope() as scope:
                if then == "cancel":
                    scope.cancel()
                await recording.store(episode, number, "client", bodies)
            if scope.cancelled_caught:
                return
            recording.mark_executed(episode, number, ids[0])
            if count > 1:
                await recording.store(episode, number, "server", [response(ids[0], "done")])
            found = {rpc_id: outcome for rpc_id, outcome, _ in calls_found(killed_now(folder, tmp_path))}
            missing.extend(rpc_id for rpc_id in ids if str(rpc_id) not in found)
            if count > 1:
                assert found[str(ids[0])] == "ok"
            if then == "read":
                recording.recorded_calls(episode)
            elif then == "flush":
                recording.flush()
            elif then == "fail":
                with no_room(folder), pytest.raises(DiskFullError):
                    recording.store_frame(None, 1, "client", b"x" * 50_000 + b"\n")

        async def main() -> None:
            async with anyio.create_task_group() as tasks:
                for number, what in enumerate(plan):
                    tasks.start_soon(store, number, *what)

        anyio.run(main)
        assert missing == []
    frames = "SELECT count(*) FROM frames WHERE method = 'tools/call'"
    assert query(folder.path, frames) == query(folder.path, "SELECT count(*) FROM calls")
    assert not any((folder.path / name).exists() for name in NAMES)
    shutil.rmtree(folder.path)


@contextmanager
def no_room(folder: RunFolder) -> Iterator[None]:
    """Leave the database no room, but the journal some."""
    connection = folder.recording.writer.connection
    with folder.recording.writer.lock:  # a commit would fail meanwhile
        (pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        yield
        connection.execute("PRAGMA max_page_count = 1000000")


async def test_the_order_of_execution_is_recovered(folder: RunFolder, episode: str, tmp_path: Path) -> None:
    recording = folder.recording
    await recording.store(episode, 1, "client", [request(n, "tool", {}) for n in (1, 2, 3)])
    recording.flush()  # the calls are in the database; the rest is only in the journal
    for number in (3, 1):
        recording.mark_executed(episode, 1, number)
    await recording.store(episode, 1, "server", [response(3, "third")])
    found = calls_found(killed_now(folder, tmp_path))
    assert found == [("1", None, 2), ("2", None, None), ("3", "ok", 1)]


async def test_the_order_of_execution_survives_a_torn_answer(
    folder: RunFolder, episode: str, tmp_path: Path
) -> None:
    """It is written with the answer: nothing but it may be left in the journal."""
    recording = folder.recording
    await recording.store(episode, 1, "client", [request(n, "tool", {}) for n in (1, 2)])
    recording.flush()
    recording.mark_executed(episode, 1, 2)
    with recording.writer.lock:  # prevents a commit meanwhile
        await recording.store(episode, 1, "server", [response(2, "second")])
        copy = killed_now(folder, tmp_path)
    (file,) = [copy / name for name in NAMES if (copy / name).stat().st_size]
    os.truncate(file, file.stat().st_size - 1)
    assert calls_found(copy) == [("1", None, None), ("2", None, 1)]
    assert not any((copy / name).exists() for name in NAMES)


@pytest.mark.parametrize("fault", ["FOREIGN KEY", "Is a directory"])
def test_a_journal_that_is_refused_is_closed(folder: RunFolder, tmp_path: Path, fault: str) -> None:
    """The viewer opens runs again and again: each refusal would cost it descriptors."""
    copy = killed_now(folder, tmp_path)
    if fault == "Is a directory":
        (copy / NAMES[1]).unlink()
        (copy / NAMES[1]).mkdir()
    body = request(1, "tool", {})
    entry = encode_frame(
        folder.recording.key.secret, 1, "ep_unknown", 1, "client", 5, body, sha256(body).digest()
    )
    (copy / NAMES[0]).write_bytes(entry)
    with pytest.raises(StorageError, match=fault):
        RunFolder.reopen(copy)
    opened = [one.resolve() for one in Path("/proc/self/fd").iterdir()]
    assert [file for file in opened if file.is_relative_to(copy)] == []
    assert (copy / NAMES[0]).read_bytes() == entry


@pytest.mark.parametrize("name", NAMES)
def test_a_link_in_place_of_a_journal_is_not_followed(folder: RunFolder, tmp_path: Path, name: str) -> None:
    """A folder from elsewhere can have one. What a journal had is cut off, and so would its target be."""
    theirs = killed_now(folder, tmp_path)
    own = tmp_path / "own"
    own.write_text("mine")
    (theirs / name).unlink(missing_ok=True)
    (theirs / name).symlink_to(own)
    with pytest.raises(StorageError, match=f"cannot write .*{name}"):
        RunReader(theirs)
    assert own.read_text() == "mine"


async def test_pending_frames_are_committed_soon(folder: RunFolder, episode: str) -> None:
    committed = threading.Event()
    folder.recording.writer.connection.set_trace_callback(
        lambda sql: committed.set() if sql == "COMMIT" else None
    )
    await folder.recording.store(episode, 1, "client", [request(1, "tool", {})])
    assert committed.wait(60)
    with folder.recording.writer.lock:  # the trace callback runs before the commit is done
        assert query(folder.path, "SELECT tool FROM calls") == [("tool",)]


async def test_readers_leave_a_running_writer_alone(folder: RunFolder, episode: str) -> None:
    with folder.recording.writer.lock:  # prevents a commit meanwhile
        await folder.recording.store(episode, 1, "client", [request(1, "tool", {})])
        journal = (folder.path / NAMES[0]).read_bytes() + (folder.path / NAMES[1]).read_bytes()
        RunReader(folder.path).close()
        assert query(folder.path, "SELECT tool FROM calls") == []
    assert [
        entry.number for entry in read(journal, folder.recording.key.secret) if isinstance(entry, FrameEntry)
    ] == [1]


async def test_a_journal_that_cannot_be_committed_stays(
    folder: RunFolder, episode: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with folder.recording.writer.lock:  # prevents a commit meanwhile
        await folder.recording.store(episode, 1, "client", [request(1, "tool", {})])
        copy = killed_now(folder, tmp_path)
    (copy / "lock").unlink()
    (copy / "lock").mkdir()
    RunReader(copy).close()
    assert "last moments" in caplog.text
    assert query(copy, "SELECT tool FROM calls") == []
    (copy / "lock").rmdir()
    assert calls_found(copy) == [("1", None, None)]


def encoded(entry: Entry) -> bytes:
    if isinstance(entry, RanEntry):
        return entry.encode()
    e = entry
    fields = (e.number, e.episode, e.connection, e.direction, e.stored_us, e.body)
    return encode_frame(b"", *fields, sha256(e.body).digest())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cut=st.integers(0, 400), flip=st.integers(0, 399), begins_with_ran=st.booleans())
def test_a_torn_journal_is_read_up_to_the_tear(
    tmp_path: Path, cut: int, flip: int, begins_with_ran: bool
) -> None:
    """A `RanEntry` is first in a file if it waited for the frames there, and is all of it if they are torn."""
    entries: list[Entry] = [
        FrameEntry(1, "ep_1", 1, "client", 5, b'{"id":1}\n'),
        RanEntry("ep_1", 1, '"é"', 1),
        FrameEntry(2, None, 3, "server", 6, b"\0\xff\n\n"),
        FrameEntry(3, "ep_1", 1, "server", 7, b""),
    ]
    if begins_with_ran:
        entries[:2] = entries[1::-1]
    parts = [encoded(entry) for entry in entries]
    whole = b"".join(parts)
    assert list(read(whole)) == entries
    kept = list(read(whole[:cut]))
    assert kept == entries[: len(kept)]
    assert sum(map(len, parts[: len(kept) + 1])) > min(cut, len(whole) - 1)
    older = FrameEntry(0, "ep_1", 1, "client", 4, b"{}\n")
    for name, content in zip(NAMES, (whole[:cut], encoded(older)), strict=True):
        (tmp_path / name).write_bytes(content)
    journal = Journal(tmp_path)
    assert journal.entries() == [older, *kept]
    journal.close()
    if flip < len(whole):
        damaged = whole[:flip] + bytes([whole[flip] ^ 32]) + whole[flip + 1 :]
        found = list(read(damaged))
        assert found == entries[: len(found)]
        assert len(found) < len(entries)


def test_a_full_disk_is_reported_and_tears_no_entry(tmp_path: Path) -> None:
    """A limit on file size cuts a write of the journal short, like a full disk."""
    journal = Journal(tmp_path)
    first, second = (FrameEntry(n, "ep_1", 1, "client", 5, b"x" * 3000) for n in (1, 2))
    journal.append([encoded(first)])
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
    try:
        with pytest.raises(StorageError, match="journal"):
            journal.append([encoded(second)])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert journal.entries() == [first]
    journal.append([encoded(second)])
    assert journal.entries() == [first, second]
    journal.close()


@DURABILITIES
async def test_a_database_without_room_loses_nothing(
    folder: RunFolder, episode: str, durability: str
) -> None:
    recording = folder.recording
    recording.set_durability(durability)  # type: ignore[arg-type]
    refused: set[int] = set()

    async def store(number: int) -> None:
        try:
            await recording.store(episode, number, "client", [request(number, "t", {"x": "y" * 300_000})])
        except DiskFullError:
            refused.add(number)

    with no_room(folder):
        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(store, number)
        with pytest.raises(DiskFullError):
            recording.flush()
    recording.flush()
    found = {int(str(rpc_id)) for (rpc_id,) in query(folder.path, "SELECT rpc_id FROM calls")}
    assert found >= set(range(8)) - refused
    assert query(folder.path, "PRAGMA integrity_check") == [("ok",)]


async def test_threads_and_tasks_may_store_and_read_at_once(folder: RunFolder, episode: str) -> None:
    recording = folder.recording
    recording.set_durability("full")

    def in_thread(connection: int) -> None:
        for number in range(20):
            recording.append_unparsed(episode, connection, "client", [request(number, "thread", {})])
            recording.append_unparsed(episode, connection, "server", [response(number, "done")])
            recording.parse_pending()
            recording.recorded_calls(episode)

    async def in_loop(connection: int) -> None:
        for number in range(20):
            await recording.store(episode, connection, "client", [request(number, "loop", {})])
            await recording.store(episode, connection, "server", [response(number, "done")])

    async with anyio.create_task_group() as tasks:
        for connection in range(3):
            tasks.start_soon(in_loop, connection)
            tasks.start_soon(anyio.to_thread.run_sync, in_thread, connection + 10)
    calls = recording.recorded_calls(episode)
    assert [(len(calls), {call.outcome for call in calls})] == [(120, {"ok"})]


def test_frames_of_two_threads_are_parsed_in_order(folder: RunFolder, episode: str) -> None:
    """A response can be appended and parsed before the thread of its request parses that."""
    folder.recording.append_unparsed(episode, 1, "client", [request(1, "tool", {})])
    folder.recording.append_unparsed(episode, 1, "server", [response(1, "done")])
    parsed = [(direction, frame.kind) for direction, _, frame in folder.recording.parse_pending()]
    assert parsed == [("client", "request"), ("server", "response")]
    assert folder.recording.parse_pending() == []
    assert [call.outcome for call in folder.recording.recorded_calls(episode)] == ["ok"]


@DURABILITIES
async def test_only_full_durability_waits_for_the_disk(
    folder: RunFolder, episode: str, durability: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    syncs: list[int] = []
    real: Callable[[int], None] = os.fdatasync
    monkeypatch.setattr("os.fdatasync", lambda file: (syncs.append(file), real(file)))
    folder.recording.set_durability(durability)  # type: ignore[arg-type]
    level = folder.recording.writer.connection.execute("PRAGMA synchronous").fetchone()
    assert level == ({"normal": 1, "full": 2}[durability],)

    async def store(number: int) -> None:
        await folder.recording.store(episode, number, "client", [request(number, "tool", {})])

    with folder.recording.writer.lock:  # prevents a commit meanwhile
        async with anyio.create_task_group() as tasks:
            for number in range(50):
                tasks.start_soon(store, number)
    assert len(syncs) == 0 if durability == "normal" else 1 <= len(syncs) <= 6  # tasks share them


def test_a_busy_writer_commits_many_frames_at_once(
    folder: RunFolder, episode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[str] = []
    folder.recording.writer.connection.set_trace_callback(
        lambda sql: commits.append(sql) if sql == "COMMIT" else None
    )
    # the thread that commits by time would take some of them
    monkeypatch.setattr("mcp_bench.recorder.store.frame_log.COMMIT_SECONDS", 3600.0)
    for number in range(640):
        folder.recording.append_unparsed(episode, 1, "client", [request(number, "tool", {})])
        folder.recording.parse_pending()
    assert len(commits) == 10
