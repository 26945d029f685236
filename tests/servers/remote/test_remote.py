"""A benchmark in a worker process: the contract, and the worker's death."""

import errno
import gc
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bench.servers.contracts import Task
from mcp_bench.servers.errors import BenchError, MissingDependencyError, UnknownNameError, WorkerDiedError
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.remote import RemoteBenchmark, process
from mcp_bench.servers.remote.failures import RemoteFailureError
from tests.support import NOTEBOOK
from tests.support.notebook import BENCHMARK, TASKS

pytestmark = [pytest.mark.anyio, pytest.mark.component]

TARGET = f"{NOTEBOOK}:BENCHMARK"


@pytest.fixture
async def remote() -> AsyncIterator[RemoteBenchmark]:
    benchmark = RemoteBenchmark("notebook", TARGET, version="1")
    yield benchmark
    await benchmark.aclose()


def worker(benchmark: RemoteBenchmark) -> int:
    assert benchmark.worker_pid is not None
    return benchmark.worker_pid


async def over(process: int) -> None:
    """Wait until a process, given as a pidfd, has ended; fail if it does not."""
    with anyio.fail_after(20):
        await anyio.wait_readable(process)
    os.close(process)


async def test_tasks_and_references_match_the_benchmark(remote: RemoteBenchmark) -> None:
    assert remote.worker_pid is None  # the worker starts on first use
    assert list(remote.tasks()) == list(BENCHMARK.tasks())
    assert len(list(remote.tasks("train"))) == TASKS
    assert [task.id for task in remote.tasks(None, 2)] == ["page-0", "page-1"]
    assert [task.id for task in islice(remote.tasks(), 3)] == ["page-0", "page-1", "page-2"]
    assert remote.task("page-7") == BENCHMARK.task("page-7")
    assert remote.reference("page-7") == BENCHMARK.reference("page-7")
    assert remote.reference("page-1") is None


async def test_leaving_the_tasks_does_not_wait_for_the_worker(remote: RemoteBenchmark) -> None:
    """The garbage collector leaves them, too, in any thread: also in the one that reads the answers."""
    held = [remote.tasks()]
    next(held[0])
    os.kill(worker(remote), signal.SIGSTOP)
    try:
        with anyio.fail_after(20):
            await anyio.to_thread.run_sync(held.clear, abandon_on_cancel=True)
    finally:
        os.kill(worker(remote), signal.SIGCONT)
    assert [task.id for task in remote.tasks(None, 2)] == ["page-0", "page-1"]


async def test_a_world_is_solved_and_graded(remote: RemoteBenchmark) -> None:
    world = await remote.open("page-4", seed=3)
    assert list(world.tools()) == list((await BENCHMARK.open("page-4")).tools())
    written = await world.call("write", {"page": 4, "text": "hello"})
    assert (written.text, written.structured) == ("written", {"page": 4})
    assert (await world.call("read", {"page": 5})).is_error
    assert await world.snapshot() == {"4": "hello"}
    assert (await world.grade("")).partial == 0.5
    assert (await world.grade("done")).strict
    await world.close()
    with pytest.raises(RemoteFailureError, match="KeyError"):
        await world.snapshot()


async def test_errors_keep_their_class_and_text(remote: RemoteBenchmark) -> None:
    for ask in (lambda: remote.task("page-x"), lambda: remote.reference("page-x")):
        with pytest.raises(UnknownNameError) as there:
            ask()
        with pytest.raises(UnknownNameError) as here:
            BENCHMARK.task("page-x")
        assert str(there.value) == str(here.value)
        assert there.value.exit_code == 2
    with pytest.raises(UnknownNameError, match="did you mean train"):
        list(remote.tasks("trian"))
    world = await remote.open("page-0")
    with pytest.raises(RemoteFailureError, match=r"^ValueError: torn page$"):
        await world.call("fail", {"message": "torn page"})
    result = await WorldSession(world).call("fail", {"message": "torn page"})
    assert result.text == "fail failed: ValueError: torn page"


async def test_large_results_are_transferred(remote: RemoteBenchmark) -> None:
    world = await remote.open("page-0")
    result = await world.call("repeat", {"text": "0123456789", "times": 1_000_000})
    assert result.text == "0123456789" * 1_000_000
    await world.call("write", {"page": 1, "text": result.text})
    assert await world.snapshot() == {"1": result.text}


async def test_concurrent_worlds_are_independent(remote: RemoteBenchmark) -> None:
    worlds = [await remote.open(f"page-{number}") for number in range(8)]
    waiting = await remote.open("page-8")

    async def fill(number: int) -> None:
        async with anyio.create_task_group() as calls:
            for page in range(5):
                calls.start_soon(worlds[number].call, "write", {"page": page, "text": f"{number}-{page}"})

    async with anyio.create_task_group() as all_at_once:
        all_at_once.start_soon(waiting.call, "wait", {})  # runs the whole time
        async with anyio.create_task_group() as filling:
            for number in range(8):
                filling.start_soon(fill, number)
        assert remote.task("page-1").id == "page-1"
        all_at_once.cancel_scope.cancel()
    for number, world in enumerate(worlds):
        assert await world.snapshot() == {str(page): f"{number}-{page}" for page in range(5)}


async def test_a_cancelled_call_leaves_the_world_usable(remote: RemoteBenchmark) -> None:
    world = await remote.open("page-0")
    with anyio.move_on_after(0.2) as scope:
        await world.call("wait", {})
    assert scope.cancelled_caught
    with anyio.fail_after(20):
        assert (await world.call("write", {"page": 0, "text": "hello"})).text == "written"


async def test_killed_worker_fails_requests_and_is_replaced(
    remote: RemoteBenchmark, capfd: pytest.CaptureFixture[str]
) -> None:
    world = await remote.open("page-0")
    await world.call("say", {"text": "my last words"})
    pid = worker(remote)
    errors: list[WorkerDiedError] = []

    async def wait() -> None:
        with pytest.raises(WorkerDiedError) as raised:
            await world.call("wait", {})
        errors.append(raised.value)

    async with anyio.create_task_group() as pending:
        pending.start_soon(wait)
        pending.start_soon(wait)
        await anyio.wait_all_tasks_blocked()
        os.kill(pid, signal.SIGKILL)
    assert len(errors) == 2
    assert "'notebook' ended with exit code -9" in str(errors[0])
    assert "my last words" in str(errors[0])
    assert "my last words" in capfd.readouterr().err  # passed on
    with pytest.raises(WorkerDiedError, match="-9"):
        await world.grade("done")
    await world.close()
    assert remote.task("page-2").id == "page-2"
    assert worker(remote) != pid


LOOKS = """
import json, os
from mcp_bench.servers.errors import BenchError

class Looks:
    name, version = "looks", "1"

    def task(self, task_id):
        files = [os.readlink(entry.path) for entry in os.scandir("/proc/self/fd") if os.path.lexists(entry.path)]
        raise BenchError(json.dumps([os.getsid(0) == os.getpid(), files, dict(os.environ)]))

BENCHMARK = Looks()
"""


async def test_worker_leads_a_session_without_inherited_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "secret")
    (tmp_path / "looks.py").write_text(LOOKS)
    remote = RemoteBenchmark("looks", f"{tmp_path / 'looks.py'}:BENCHMARK", version="1")
    with (tmp_path / "recordings.db").open("w") as ours:
        os.set_inheritable(ours.fileno(), True)
        with pytest.raises(BenchError) as error:
            remote.task("page-0")
    await remote.aclose()
    leads_session, files, environ = json.loads(str(error.value))
    assert leads_session
    assert not any("recordings.db" in file for file in files)
    assert (
        sum(file.startswith("socket:") for file in files) <= 5
    )  # the connection to the parent, and asyncio's own pair
    assert "secret" not in environ.values()


async def test_aclose_ends_the_worker_and_lets_the_benchmark_close(
    remote: RemoteBenchmark, capfd: pytest.CaptureFixture[str]
) -> None:
    world = await remote.open("page-0")
    ending = os.pidfd_open(worker(remote))
    await remote.aclose()
    await over(ending)
    assert remote.worker_pid is None
    assert "notebook closed" in capfd.readouterr().err
    with pytest.raises(WorkerDiedError, match="was closed"):
        await world.snapshot()
    assert (await remote.open("page-0")).tools()  # the benchmark can be used again


async def test_the_worker_ends_with_the_object() -> None:
    benchmark = RemoteBenchmark("notebook", TARGET, version="1")
    benchmark.task("page-0")
    ending = os.pidfd_open(worker(benchmark))
    del benchmark
    gc.collect()
    await over(ending)


ORPHAN = """
import sys, anyio
from mcp_bench.servers.remote import RemoteBenchmark, process
remote = RemoteBenchmark("notebook", sys.argv[1], version="1")

async def main():
    world = await remote.open("page-0")
    print(remote.worker_pid, flush=True)
    await world.call(sys.argv[2], {})

anyio.run(main)
"""


@pytest.mark.parametrize("doing", ["wait", "spin"])
async def test_busy_worker_ends_with_its_parent(doing: str) -> None:
    command = [sys.executable, "-I", "-c", ORPHAN, TARGET, doing]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None and parent.stderr is not None
        ending = os.pidfd_open(int(parent.stdout.readline()))
        assert parent.stderr.readline() == "busy\n"  # the worker's, passed on
        parent.kill()
    await over(ending)


@pytest.mark.parametrize(
    ("target", "kind", "words"),
    [
        (
            "no_such_package.benchmark:X",
            MissingDependencyError,
            "'no_such_package' is not installed in .*pip",
        ),
        ("mcp_bench.servers.contracts:NOTHING", BenchError, "no benchmark at 'mcp_bench.servers.contr"),
        ("/nowhere/at_all.py:BENCHMARK", BenchError, "no benchmark at '/nowhere/at_all.py"),
    ],
)
async def test_a_benchmark_that_cannot_be_loaded(target: str, kind: type[BenchError], words: str) -> None:
    benchmark = RemoteBenchmark("odd", target, version="1", install="pip install odd")
    with pytest.raises(kind, match=words):
        benchmark.task("x")
    assert benchmark.worker_pid is None


async def test_missing_interpreter_and_one_without_this_package(tmp_path: Path) -> None:
    with pytest.raises(MissingDependencyError, match="/nowhere/python"):
        RemoteBenchmark("notebook", TARGET, version="1", python="/nowhere/python").task("page-0")
    bare = tmp_path / "python"
    bare.write_text("#!/bin/sh\necho No module named mcp_bench >&2\nexit 1\n")
    bare.chmod(0o755)
    with pytest.raises(MissingDependencyError, match=r"has no package 'mcp_bench'\. A worker needs"):
        RemoteBenchmark("notebook", TARGET, version="1", python=str(bare)).task("page-0")


async def test_version_mismatch_with_the_worker_is_an_error() -> None:
    with pytest.raises(BenchError, match="version '1', this one expects 'notebook' version '2'"):
        RemoteBenchmark("notebook", TARGET, version="2").task("page-0")


async def test_sync_methods_work_from_many_threads(remote: RemoteBenchmark) -> None:
    found: list[Task] = []

    def look(number: int) -> None:
        found.append(remote.task(f"page-{number}"))

    async with anyio.create_task_group() as threads:
        for number in range(20):
            threads.start_soon(anyio.to_thread.run_sync, look, number)
    assert {task.id for task in found} == {f"page-{number}" for number in range(20)}
    assert any_worker_count(remote) == 1


def any_worker_count(remote: RemoteBenchmark) -> int:
    """Count the child processes that are workers of this benchmark; other tests may run other workers."""
    children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    pids: set[Any] = {pid for listing in children for pid in listing.read_text().split()}
    found = 0
    for pid in pids:
        with suppress(OSError):  # the process has ended
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            found += b"remote.worker" in words and TARGET.encode() in words
    return found


async def test_exiting_tool_ends_its_call_but_not_the_worker(remote: RemoteBenchmark) -> None:
    session = WorldSession(await remote.open("page-4"))
    before = worker(remote)
    result = await session.call("quit", {})
    assert result.is_error and result.text == "quit failed: SystemExit: bye"
    assert (await session.call("write", {"page": 4, "text": "hello"})).text == "written"
    assert worker(remote) == before


def test_a_worker_waits_for_room(monkeypatch: pytest.MonkeyPatch) -> None:
    started = subprocess.Popen
    failures = [BlockingIOError(errno.EAGAIN, "no room")] * 2

    def crowded(*args: Any, **named: Any) -> Any:
        if failures:
            raise failures.pop()
        return started(*args, **named)

    monkeypatch.setattr(subprocess, "Popen", crowded)
    benchmark = RemoteBenchmark("notebook", TARGET, version="1")
    assert benchmark.task("page-0").id == "page-0"
    anyio.run(benchmark.aclose)
    assert failures == []


def test_a_worker_without_room_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: Any, **named: Any) -> Any:
        raise BlockingIOError(errno.EAGAIN, "no room")

    monkeypatch.setattr(process, "ROOM_SECONDS", 0.1, raising=False)
    monkeypatch.setattr(subprocess, "Popen", full)
    with pytest.raises(WorkerDiedError, match="no room for a worker"):
        RemoteBenchmark("notebook", TARGET, version="1").task("page-0")
