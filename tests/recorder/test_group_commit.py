"""Many tasks that store at once: they share commits, and each is told only when its frame is there."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from recorded import request, response

from mcp_bench.recorder.body import Body, GrowingBody
from mcp_bench.recorder.errors import DiskFullError
from mcp_bench.recorder.run_folder import RunFolder

pytestmark = pytest.mark.anyio
DURABILITIES = pytest.mark.parametrize("durability", ["normal", "full"])


@pytest.fixture
def reader(folder: RunFolder) -> Iterator[sqlite3.Connection]:
    """Another connection, as any SQLite tool would have."""
    with closing(sqlite3.connect(f"file:{folder.path}/recordings.db?mode=ro", uri=True)) as connection:
        yield connection


@pytest.fixture
def commits(folder: RunFolder) -> Iterator[list[str]]:
    """The commits of the writer, as they happen."""
    seen: list[str] = []
    connection = folder.recording.writer.connection
    connection.set_trace_callback(lambda sql: seen.append(sql) if sql == "COMMIT" else None)
    yield seen
    connection.set_trace_callback(None)


def stored(reader: sqlite3.Connection, rpc_id: int) -> bool:
    found = reader.execute("SELECT 1 FROM calls WHERE rpc_id = ?", [str(rpc_id)]).fetchone()
    return found is not None


def large(body: bytes) -> Body:
    growing = GrowingBody(large=1)
    growing.add(body)
    return growing.take()


@DURABILITIES
async def test_tasks_of_one_turn_share_a_commit(
    folder: RunFolder, episode: str, reader: sqlite3.Connection, commits: list[str], durability: str
) -> None:
    folder.recording.writer.set_durability(durability)  # type: ignore[arg-type]
    visible: list[bool] = []

    async def store(number: int) -> None:
        await folder.recording.store(episode, number, "client", [request(number, "tool", {})])
        visible.append(stored(reader, number))

    async with anyio.create_task_group() as tasks:
        for number in range(50):
            tasks.start_soon(store, number)
    assert visible == [True] * 50
    assert len(commits) <= 3  # the first may go ahead of the others


async def test_one_alone_is_committed_in_its_own_thread_at_once(
    folder: RunFolder, episode: str, commits: list[str]
) -> None:
    threads: list[int] = []
    folder.recording.writer.connection.set_trace_callback(lambda _: threads.append(threading.get_ident()))
    await folder.recording.store(episode, 1, "client", [request(1, "tool", {})])
    assert set(threads) == {threading.get_ident()}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    deadline=None,
    max_examples=25,
)
@given(
    plan=st.lists(
        st.tuples(
            st.integers(0, 4), st.booleans(), st.integers(1, 3), st.sampled_from(["", "read", "cancel"])
        ),
        min_size=1,
        max_size=12,
    ),
    full=st.booleans(),
)
def test_a_store_returns_when_its_frames_are_there(
    folder: RunFolder, episode: str, plan: list[tuple[int, bool, int, str]], full: bool
) -> None:
    recording = folder.recording
    recording.writer.set_durability("full" if full else "normal")
    late: list[int] = []

    async def store(number: int, turns: int, is_large: bool, count: int, then: str) -> None:
        for _ in range(turns):
            await checkpoint()
        first = number * 10
        bodies: list[Body] = [request(first + n, "tool", {}) for n in range(count)]
        if is_large:
            bodies[-1] = large(request(first + count - 1, "tool", {"text": "x" * 1000}))
        if then == "cancel":
            with anyio.CancelScope() as scope:
                scope.cancel()
                await recording.store(episode, number, "client", bodies)
            return
        await recording.store(episode, number, "client", bodies)
        late.extend(first + n for n in range(count) if not stored(reader, first + n))
        if then == "read":
            recording.recorded_calls(episode)

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            for number, what in enumerate(plan):
                tasks.start_soon(store, number, *what)

    path = f"file:{folder.path}/recordings.db?mode=ro"
    with closing(sqlite3.connect(path, uri=True)) as reader:
        anyio.run(main)
        assert late == []
        assert reader.execute("PRAGMA foreign_key_check").fetchall() == []
        frames = "SELECT count(*) FROM frames WHERE method = 'tools/call'"
        assert reader.execute(frames).fetchone() == reader.execute("SELECT count(*) FROM calls").fetchone()
    for number in range(len(plan)):
        recording.close_connection(episode, number)
    with recording.writer.transaction() as db:
        db.execute("DELETE FROM calls")
        db.execute("DELETE FROM frames")


def fill(folder: RunFolder) -> Callable[[], None]:
    """Leave the database no room; return what makes room again."""
    connection = folder.recording.writer.connection
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    return lambda: connection.execute("PRAGMA max_page_count = 1000000") and None


@DURABILITIES
async def test_a_full_disk_reaches_everyone_and_takes_nothing_stored(
    folder: RunFolder, episode: str, reader: sqlite3.Connection, durability: str
) -> None:
    recording = folder.recording
    recording.writer.set_durability(durability)  # type: ignore[arg-type]
    await recording.store(episode, 0, "client", [request(0, "before", {})])
    make_room = fill(folder)
    told: list[type[BaseException]] = []

    async def store(number: int) -> None:
        try:
            await recording.store(episode, number, "client", [request(number, "t", {"x": "y" * 20_000})])
        except DiskFullError as error:
            told.append(type(error))

    async with anyio.create_task_group() as tasks:
        for number in range(1, 9):
            tasks.start_soon(store, number)
    assert told == [DiskFullError] * 8
    assert reader.execute("SELECT tool FROM calls").fetchall() == [("before",)]
    make_room()
    await recording.store(episode, 0, "server", [response(0, "after")])
    await recording.store(episode, 9, "client", [request(9, "again", {})])
    tools = reader.execute("SELECT tool, outcome FROM calls ORDER BY id").fetchall()
    assert tools == [("before", "ok"), ("again", None)]
    assert reader.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert reader.execute("PRAGMA foreign_key_check").fetchall() == []


async def test_frames_that_come_together_are_stored_together_or_not_at_all(
    folder: RunFolder, episode: str, reader: sqlite3.Connection
) -> None:
    """The first is small and waits for the second to be read, while the disk is full for a moment."""
    recording = folder.recording
    make_room = fill(folder)

    async def fail() -> None:
        with pytest.raises(DiskFullError):
            await recording.store(episode, 2, "client", [request(2, "lost", {"x": "y" * 50_000})])
        make_room()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(fail)
        await recording.store(
            episode, 1, "client", [request(1, "small", {}), large(request(3, "large", {"x": "y" * 500}))]
        )
    assert reader.execute("SELECT tool FROM calls ORDER BY id").fetchall() == [("small",), ("large",)]


async def test_a_leader_that_is_cancelled_leaves_no_one_waiting(
    folder: RunFolder, episode: str, reader: sqlite3.Connection
) -> None:
    recording = folder.recording
    stopped: list[int] = []

    async def store(number: int, scope: anyio.CancelScope) -> None:
        with scope:
            await recording.store(episode, number, "client", [request(number, "tool", {})])
            await checkpoint()
        if scope.cancelled_caught:
            stopped.append(number)
        assert stored(reader, number)

    async with anyio.create_task_group() as tasks:
        first, second = anyio.CancelScope(), anyio.CancelScope()
        tasks.start_soon(store, 1, first)
        tasks.start_soon(store, 2, second)
        await checkpoint()
        first.cancel()
    assert stopped == [1]


async def test_other_threads_may_store_and_read_meanwhile(folder: RunFolder, episode: str) -> None:
    recording = folder.recording
    recording.writer.set_durability("full")

    def in_thread(connection: int) -> None:
        for number in range(20):
            recording.store_frame(episode, connection, "client", request(number, "thread", {}))
            recording.store_frame(episode, connection, "server", response(number, "done"))
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


async def test_what_is_queued_is_stored_at_the_latest_when_the_run_is_closed(folder: RunFolder) -> None:
    folder.recording.add_frame(None, 1, "client", b'{"id":1,"method":"initialize"}\n')
    folder.close()
    with closing(sqlite3.connect(folder.path / "recordings.db")) as db:
        assert db.execute("SELECT method FROM frames").fetchall() == [("initialize",)]


@DURABILITIES
def test_the_durability_asked_for_is_the_one_in_force(folder: RunFolder, durability: str) -> None:
    folder.recording.writer.set_durability(durability)  # type: ignore[arg-type]
    level = folder.recording.writer.connection.execute("PRAGMA synchronous").fetchone()
    assert level == ({"normal": 1, "full": 2}[durability],)
