"""A worker passes on every optional part of the contract, and runs in a Python of its own."""

import json
import sys
from collections.abc import AsyncIterator
from importlib.metadata import packages_distributions
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcp_bench.servers.contracts import (
    ChatMessage,
    Converses,
    Image,
    ReportsAssertions,
    Suggests,
    ToolCall,
    ToolResult,
)
from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.grading_call import grade_world
from mcp_bench.servers.host import NoHost
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.remote import RemoteBenchmark
from mcp_bench.servers.remote.connection import WorkerConnection
from tests.support import ROOT
from tests.support.talker import BENCHMARK

pytestmark = [pytest.mark.anyio, pytest.mark.component]

TETRIS = "mcp_bench.servers.adapters.tetris:BENCHMARK"
TARGET = f"{ROOT / 'tests' / 'support' / 'talker.py'}:BENCHMARK"
SAID = [
    ChatMessage(role="user", content="Talk."),
    ChatMessage(role="assistant", content="ok", calls=(ToolCall(name="draw"),)),
]


@pytest.fixture
async def remote() -> AsyncIterator[RemoteBenchmark]:
    benchmark = RemoteBenchmark("talker", TARGET, version="1")
    yield benchmark
    await benchmark.aclose()


async def test_images_rewards_and_the_end_cross_over(remote: RemoteBenchmark) -> None:
    world = await remote.open("plain")
    drawn = await world.call("draw", {})
    assert drawn == ToolResult(images=(Image(data="AAAA", media_type="image/gif"),), reward=0.25, done=True)
    session = WorldSession(world)
    await session.call("draw", {"not": "checked"})
    assert session.rewards == [0.25] and session.over.is_set()


async def test_new_tools_come_with_their_result(remote: RemoteBenchmark) -> None:
    world = await remote.open("talking")
    session = WorldSession(world)
    assert session.changes_tools
    assert (await session.call("grow", {})).text == "grown"
    assert [tool.name for tool in session.tools] == ["draw", "more"] == [tool.name for tool in world.tools()]
    assert [tool.checked for tool in session.tools] == [False, True]


async def test_world_that_cannot_list_its_new_tools_keeps_them(
    remote: RemoteBenchmark, capfd: pytest.CaptureFixture[str]
) -> None:
    world = await remote.open("plain")
    assert (await world.call("break", {})).text == "broken"
    assert len(world.tools()) == 3
    await remote.aclose()
    assert "RuntimeError: no table" in capfd.readouterr().err


async def test_optional_methods_are_those_of_the_real_world(remote: RemoteBenchmark) -> None:
    for task in ("plain", "talking"):
        here, there = await BENCHMARK.open(task), await remote.open(task)
        for kind in (Converses, Suggests, ReportsAssertions):
            assert isinstance(there, kind) == isinstance(here, kind), (task, kind)
    world = await remote.open("talking")
    assert isinstance(world, Converses) and isinstance(world, Suggests)
    assert [await world.reply(said) for said in ("hi", "bye")] == ["you said hi", None]
    assert await world.suggest() == ToolCall(name="break", arguments={"x": 1})
    await world.call("break", {})
    assert await world.suggest() == "over"


@pytest.mark.parametrize(
    ("name", "target", "task", "waits"),
    [("talker", TARGET, "plain", True), ("tetris", TETRIS, "tetris.1", False)],
)
async def test_only_a_close_that_does_something_is_awaited(
    name: str, target: str, task: str, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting takes longer than a cheap world does."""
    asked: list[str] = []
    request = WorkerConnection.arequest

    async def counted(connection: WorkerConnection, method: str, *more: Any, **params: Any) -> Any:
        asked.append(method)
        return await request(connection, method, *more, **params)

    monkeypatch.setattr(WorkerConnection, "arequest", counted)
    remote = RemoteBenchmark(name, target, version="1")
    try:
        world = await remote.open(task)
        await world.close()
        assert asked == (["open", "close"] if waits else ["open"])
        with pytest.raises(BenchError):  # the world is gone: the worker begins requests in their order
            await world.snapshot()
    finally:
        await remote.aclose()


async def test_transcript_reaches_worlds_that_read_it(remote: RemoteBenchmark) -> None:
    for benchmark in (BENCHMARK, remote):
        assert (await grade_world(await benchmark.open("plain"), "", SAID)).metrics == {}
        found = await grade_world(await benchmark.open("talking"), "", SAID)
        assert found.metrics == {"Talk.": 0, "ok": 1, "messages": 2}


ASKS = """
import anyio

class Asks(PlainWorld):
    def __init__(self, host):
        super().__init__()
        self.host = host

    async def call(self, name, arguments):
        with anyio.move_on_after(0.05):
            await self.host.ask("judge", [ChatMessage(role="user", content="Is it?")])
        return ToolResult(text="it gave up")

class Asking(Talker):
    async def open(self, task_id, *, seed=0, host=None):
        return Asks(host)

BENCHMARK = Asking()
"""


class Hangs(NoHost):
    async def ask(self, *_: object) -> ChatMessage:
        await anyio.sleep_forever()
        raise AssertionError


async def test_a_world_need_not_wait_for_what_it_asked(tmp_path: Path) -> None:
    (tmp_path / "asks.py").write_text(Path(TARGET.partition(":")[0]).read_text() + ASKS)
    remote = RemoteBenchmark("talker", f"{tmp_path / 'asks.py'}:BENCHMARK", version="1")
    try:
        with anyio.fail_after(60):
            world = await remote.open("plain", seed=0, host=Hangs(""))
            assert (await world.call("draw", {})).text == "it gave up"
    finally:
        await remote.aclose()


LOADED = """
import json, sys
from mcp_bench.servers.errors import BenchError

class Looks:
    name, version = "looks-at-it", "1"

    async def aclose(self):
        pass

    def task(self, task_id):
        raise BenchError(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))

BENCHMARK = Looks()
"""
WORKER_NEEDS = {
    *("anyio", "idna", "sniffio"),
    *("pydantic", "pydantic-core", "annotated-types", "typing-inspection", "typing-extensions"),
}
"""The packages that a worker needs, with their dependencies."""


async def test_worker_imports_only_pydantic_and_anyio(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "looks.py").write_text(LOADED)
    named = tmp_path / "another-python"
    named.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    named.chmod(0o755)
    monkeypatch.setenv("MCP_BENCH_PYTHON_LOOKS_AT_IT", str(named))
    remote = RemoteBenchmark("looks-at-it", f"{tmp_path / 'looks.py'}:BENCHMARK", version="1", python="/none")
    with pytest.raises(BenchError) as error:
        remote.task("x")
    await remote.aclose()
    modules = json.loads(str(error.value))
    places = packages_distributions()
    loaded = {one.lower().replace("_", "-") for module in modules for one in places.get(module, [])}
    assert {"pydantic", "anyio"} <= loaded
    assert loaded - WORKER_NEEDS <= {"mcp-bench-kit", "mcp-bench-trainer", "setuptools"}


@pytest.mark.parametrize(
    ("script", "words"),
    [
        (None, r"cannot start the Python '.*/python': No such file.*\(from \$MCP_BENCH_PYTHON_TALKER\)"),
        (
            "echo \"ModuleNotFoundError: No module named 'pydantic'\"; exit 1",
            r"'.*/python' has no package 'pydantic'.*name another Python in \$MCP_BENCH_PYTHON_TALKER",
        ),
    ],
)
async def test_unfit_python_from_the_environment_is_explained(
    script: str | None, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    monkeypatch.setenv("MCP_BENCH_PYTHON_TALKER", str(python))
    with pytest.raises(MissingDependencyError, match=f"benchmark 'talker': .*{words}"):
        RemoteBenchmark("talker", TARGET, version="1").task("plain")
