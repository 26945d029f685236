"""A session refuses invalid tools and survives tools that raise."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.errors import BenchError, WorkerDiedError
from mcp_bench.servers.mcp_server.arguments import ToolSchemaError
from mcp_bench.servers.mcp_server.world_session import CONTROL_NAMES, ToolTableError, WorldSession
from tests.support import ROOT
from tests.support.notebook import NotebookWorld, tool

pytestmark = pytest.mark.component


class Offering(NotebookWorld):
    def __init__(self, *tools: ToolSpec) -> None:
        super().__init__(0)
        self._tools = tools

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools


@pytest.mark.parametrize("name", [*sorted(CONTROL_NAMES), "Reset", "GRADE"])
def test_reserved_tool_names_are_refused(name: str) -> None:
    with pytest.raises(ToolTableError, match=f"tool '{name}' .* rename it"):
        WorldSession(Offering(tool("write", "x"), tool(name, "x")))


def test_duplicate_tool_names_are_refused() -> None:
    with pytest.raises(ToolTableError, match="two tools are named 'write'"):
        WorldSession(Offering(tool("write", "x"), tool("write", "y")))


@pytest.mark.parametrize(
    "schema", [{}, {"type": "string"}, {"type": "object", "properties": {"a": {"type": "strin"}}}]
)
def test_invalid_schemas_are_refused(schema: dict[str, JSON]) -> None:
    with pytest.raises(ToolSchemaError, match="tool 'odd'"):
        WorldSession(Offering(ToolSpec(name="odd", description="", input_schema=schema)))


class PanicError(BaseException):
    """A direct subclass of BaseException, as raised by some libraries written in other languages."""


class Gone(NotebookWorld):
    def __init__(self, error: BaseException) -> None:
        super().__init__(0)
        self._error = error

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        raise self._error


class Returning(NotebookWorld):
    def __init__(self, result: object) -> None:
        super().__init__(0)
        self._result = result

    async def call(self, name: str, arguments: dict[str, JSON]) -> Any:
        return self._result


@pytest.mark.anyio
@pytest.mark.parametrize("result", ["done", None, {"text": "done"}])
async def test_what_is_no_tool_result_is_named(result: object) -> None:
    refused = await WorldSession(Returning(result)).call("read", {"page": 1})
    what = f"read failed: TypeError: call returned {type(result).__name__}, not a ToolResult"
    assert (refused.is_error, refused.text) == (True, what)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("error", "text"),
    [
        (WorkerDiedError("exit code 1; last words: SECRET"), "the environment is not available any more"),
        (BenchError("the page is torn"), "read failed: the page is torn"),
        (RuntimeError("x" * 5000), "RuntimeError: xxx"),
    ],
)
async def test_error_texts_for_agents_are_short(error: Exception, text: str) -> None:
    result = await WorldSession(Gone(error)).call("read", {"page": 1})
    assert result.is_error and text in result.text
    assert "SECRET" not in result.text and len(result.text) < 600


@pytest.mark.anyio
@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt("typed by the world"), PanicError()])
async def test_tool_that_would_end_the_process_gives_an_error(error: BaseException) -> None:
    """Needs a handler such as asyncio's, since Python's own leaves no trace to recognise a Ctrl-C by."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        session = WorldSession(Gone(error))
        for _ in range(2):  # the world is not locked afterwards
            result = await session.call("read", {"page": 1})
            assert result.is_error and f"read failed: {type(error).__name__}" in result.text
    finally:
        signal.signal(signal.SIGINT, before)


class Losing(NotebookWorld):
    """Awaits a task of its own, which it has cancelled."""

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name != "read":
            return await super().call(name, arguments)
        task = asyncio.ensure_future(anyio.sleep_forever())
        task.cancel()
        await task
        raise AssertionError("it was cancelled")


@pytest.mark.anyio
@pytest.mark.parametrize("seconds", [None, 600])
async def test_cancellation_within_a_world_is_its_error(seconds: float | None) -> None:
    session = WorldSession(Losing(0), call_seconds=seconds)
    for _ in range(2):
        result = await session.call("read", {"page": 1})
        assert result.is_error and "read failed: CancelledError" in result.text


async def cancelled_while_blocked(scope: anyio.CancelScope) -> None:
    await anyio.wait_all_tasks_blocked()
    scope.cancel()


@pytest.mark.anyio
async def test_cancellation_of_a_call_goes_on() -> None:
    session = WorldSession(Losing(0))
    async with anyio.create_task_group() as tasks:
        with anyio.CancelScope() as scope:
            tasks.start_soon(cancelled_while_blocked, scope)
            await session.call("wait", {})
        assert scope.cancelled_caught
    assert (await session.call("write", {"page": 0, "text": "x"})).text == "written"


@pytest.mark.anyio
async def test_a_long_name_of_a_tool_is_cut() -> None:
    result = await WorldSession(NotebookWorld(0)).call("n" * 100_000, {})
    assert "There is no tool 'nnn" in result.text and len(result.text) < 500


INTERRUPTED = f"""
import sys
sys.path.append({str(ROOT)!r})
import anyio, os, signal
from tests.support.notebook import NotebookWorld
from mcp_bench.servers.mcp_server.world_session import WorldSession

class Stubborn(NotebookWorld):
    async def call(self, name, arguments):
        os.kill(os.getpid(), signal.SIGINT)       # asyncio asks politely first, ...
        os.kill(os.getpid(), signal.SIGINT)       # ... then interrupts what runs
        return await super().call(name, arguments)

anyio.run(WorldSession(Stubborn(1)).call, "read", {{"page": 1}})
print("went on")
"""


def test_ctrl_c_interrupts_a_call() -> None:
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, timeout=60)
    assert "KeyboardInterrupt" in done.stderr and "tool read raised" not in done.stderr
    assert done.stdout == "" and done.returncode != 0
