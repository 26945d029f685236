"""The end of an episode's wire, in one process: waiting for a running call."""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketStream

from mcp_bench.bridge.wire.admission import Gate
from mcp_bench.bridge.wire.backend import WorldBackend
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.unix_socket import UnixSocketWire
from mcp_bench.recorder.records import EpisodeStart, PlannedEpisode, RunInfo
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.mcp_server.server import WorldSession

pytestmark = [pytest.mark.anyio, pytest.mark.component]

TASK = {"task": "t", "split": "s", "domain": "d", "prompt": "p"}
NAMES = {"benchmark": "b", "benchmark_version": "1", "agent": "a", "agent_version": "1"}
KINDS = {"isolation": "none", "home": "sealed", "tools": "mcp-only"}


class SlowWorld:
    """A world whose only tool returns when the test releases it."""

    def __init__(self) -> None:
        self.called = anyio.Event()
        self.release = anyio.Event()

    def tools(self) -> list[ToolSpec]:
        return [ToolSpec(name="slow", description="Slow.", input_schema={"type": "object"})]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        self.called.set()
        await self.release.wait()
        return ToolResult(text="done")

    async def grade(self, answer: str) -> Grade:
        return Grade(partial=1.0, strict=True, grader_version="1")

    async def snapshot(self) -> JSON:
        return None

    async def close(self) -> None:
        pass


@contextmanager
def wired(world: SlowWorld, root: Path) -> Iterator[tuple[RunFolder, EpisodeFolder, UnixSocketWire]]:
    """Yield a run, the folder of its episode, and a wire that leads to the world."""
    info = RunInfo(id="run", created_us=1, plan=[PlannedEpisode(**TASK)], **NAMES, **KINDS)
    with RunFolder.create(info, root=root) as run, EpisodeFolder() as folder:
        run.recording.begin_episode(
            EpisodeStart(id="ep", seed=0, repeat=0, attempt=1, started_us=1, tools=[], **TASK)
        )
        gate = Gate("ep", folder.token, run.recording)
        gate.root = os.getpid()
        yield run, folder, UnixSocketWire(gate, folder, WorldBackend(WorldSession(world)), run.recording)


async def test_a_last_call_without_a_line_end_is_answered(tmp_path: Path) -> None:
    """The agent has closed its side, and nothing waits for the end of the line."""
    world = SlowWorld()
    world.release.set()
    with wired(world, tmp_path) as (run, folder, wire):
        with anyio.fail_after(20):  # less than the wire waits for an open call
            async with anyio.create_task_group() as tasks:
                await tasks.start(wire.serve)
                async with await anyio.connect_unix(folder.socket) as agent:
                    await send_call(agent, folder.token, end=b"")
                    agent.extra(anyio.abc.SocketAttribute.raw_socket).shutdown(socket.SHUT_WR)
                    answers = b"".join([chunk async for chunk in agent])
                tasks.cancel_scope.cancel()
            await wire.close()
        assert b"done" in answers
        (call,) = run.recording.recorded_calls("ep")
        assert call.outcome == "ok"


async def test_an_answer_wakes_all_waiters(tmp_path: Path) -> None:
    """Both wait for it: the connection, whose input has ended, and the episode."""
    world = SlowWorld()
    with wired(world, tmp_path) as (run, folder, wire):
        drained = anyio.Event()

        async def drain() -> None:
            await wire.drain()
            drained.set()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                await tasks.start(wire.serve)
                async with await anyio.connect_unix(folder.socket) as agent:
                    await send_call(agent, folder.token)
                    await world.called.wait()
                    agent.extra(anyio.abc.SocketAttribute.raw_socket).shutdown(socket.SHUT_WR)
                    await anyio.wait_all_tasks_blocked()
                    tasks.start_soon(drain)
                    await anyio.wait_all_tasks_blocked()
                    assert not drained.is_set()
                    world.release.set()
                    await drained.wait()
                tasks.cancel_scope.cancel()
            await wire.close()
        (call,) = run.recording.recorded_calls("ep")
        assert call.outcome == "ok"


async def send_call(agent: SocketStream, token: str, end: bytes = b"\n") -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "slow", "arguments": {}}},
    ]
    await agent.send(token.encode() + b"\n" + b"\n".join(json.dumps(line).encode() for line in lines) + end)


def test_tools_that_come_later_are_named_from_the_start() -> None:
    """Agents get a list of allowed tools before they start."""
    schema = {"type": "object", "properties": {"page": {"type": "integer"}}}
    late = ToolSpec(name="late", description="Late.", input_schema=schema)
    backend = WorldBackend(WorldSession(SlowWorld()), [late])
    assert set(backend.tools) == {"slow", "late"}
    assert backend.arguments == {"late": ("page",)}
    assert WorldBackend(WorldSession(SlowWorld())).tools == ("slow",)


def test_an_attempt_at_another_episode_is_stored_with_its_own(tmp_path: Path) -> None:
    """On a node each attempt has a folder of its own."""
    runs = []
    with ExitStack() as stack:
        for name in ("own", "other"):
            info = RunInfo(id=name, created_us=1, plan=[PlannedEpisode(**TASK)], **NAMES, **KINDS)
            run = stack.enter_context(RunFolder.create(info, root=tmp_path))
            run.recording.begin_episode(
                EpisodeStart(id=name, seed=0, repeat=0, attempt=1, started_us=1, tools=[], **TASK)
            )
            runs.append(run.recording)
        own, other = [
            stack.enter_context(Gate(run_id, f"token of {run_id}", recording))
            for run_id, recording in zip(("own", "other"), runs, strict=True)
        ]
        own.root = 7
        other.flag("wrong_token", {7, 8}, "it knocked")
        other.flag("wrong_token", {9}, "somebody knocked")
        assert [flag.detail for flag in runs[0].flags("own")] == ["it knocked, at other"]
        assert [flag.detail for flag in runs[1].flags(None)] == ["somebody knocked, at other"]
        assert runs[1].flags("other") == []
