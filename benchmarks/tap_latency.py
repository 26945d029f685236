"""What relay, wire, tap and recording add to a tool call.

Run it: `.venv/bin/python benchmarks/tap_latency.py`. The same SDK client calls the same small world,
in interleaved rounds: over stdio in a process of its own, once served by this project and once by the
SDK's own stdio transport, and through the whole chain (shim, Unix socket, peer check, tap, SQLite),
whose referee shares a process with the client here. Client and SDK are in every figure: read the ratios.
"""

import os
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.server.stdio import stdio_server

from mcp_bench.bridge.episode_folder import EpisodeFolder
from mcp_bench.bridge.far_end import WorldEnd
from mcp_bench.bridge.wire import Wire
from mcp_bench.recorder.records import EpisodeStart, PlannedEpisode, RunInfo, new_id, now_us
from mcp_bench.recorder.run_folder import RunFolder
from mcp_bench.servers.contracts import JSON, Grade, ToolResult, ToolSpec
from mcp_bench.servers.mcp_server import WorldSession, build_server
from mcp_bench.servers.stdio import serve_stdio

ROUNDS = 7
CALLS = 300
TEXT = "x" * 200


class EchoWorld:
    """One tool that returns what it is given."""

    def tools(self) -> list[ToolSpec]:
        schema: dict[str, JSON] = {"type": "object", "properties": {"text": {"type": "string"}}}
        return [ToolSpec(name="echo", description="Return the text.", input_schema=schema)]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        return ToolResult(text=str(arguments["text"]))

    async def grade(self, answer: str) -> Grade:
        return Grade(partial=1.0, strict=True, grader_version="1")

    async def snapshot(self) -> JSON:
        return None

    async def close(self) -> None:
        pass


async def serve_by_sdk() -> None:
    server = build_server(WorldSession(EchoWorld()), name="echo")
    async with stdio_server() as (source, sink):
        await server.run(source, sink, server.create_initialization_options())


async def serve_ours() -> None:
    await serve_stdio(WorldSession(EchoWorld()), name="echo")


def this_script(mode: str) -> StdioServerParameters:
    return StdioServerParameters(command=sys.executable, args=[__file__, mode])


@asynccontextmanager
async def recorded_wire(home: Path) -> AsyncIterator[StdioServerParameters]:
    """Run an episode's wire in this process; yield the command of its shim."""
    planned = PlannedEpisode(task="echo", split="none", domain="none", prompt="echo")
    kinds = {"isolation": "none", "home": "sealed", "tools": "mcp-only"}
    names = {"benchmark": "echo", "benchmark_version": "1", "agent": "client", "agent_version": "1"}
    info = RunInfo(id=new_id("run"), created_us=now_us(), plan=[planned], **kinds, **names)
    with RunFolder.create(info, root=home) as run, EpisodeFolder() as folder:
        told = planned.model_dump(include={"task", "split", "domain", "prompt", "seed", "repeat"})
        run.recording.begin_episode(EpisodeStart(id="ep", attempt=1, started_us=now_us(), tools=[], **told))
        session = WorldSession(EchoWorld())
        wire = Wire("ep", folder, WorldEnd(session), run.recording, root=os.getpid())
        async with anyio.create_task_group() as tasks:
            await tasks.start(wire.serve)
            command, *arguments = folder.server_command
            yield StdioServerParameters(command=command, args=arguments)
            tasks.cancel_scope.cancel()


async def measure(parameters: StdioServerParameters) -> tuple[list[float], float]:
    """Return milliseconds per call, and calls per second with 16 at a time."""
    async with Client(stdio_client(parameters)) as client:
        await client.call_tool("echo", {"text": TEXT})
        times = []
        for _ in range(CALLS):
            start = time.perf_counter()
            await client.call_tool("echo", {"text": TEXT})
            times.append((time.perf_counter() - start) * 1000)
        start = time.perf_counter()
        async with anyio.create_task_group() as tasks:
            for _ in range(16):
                tasks.start_soon(several, client, CALLS // 16)
        return times, CALLS // 16 * 16 / (time.perf_counter() - start)


async def several(client: Client, count: int) -> None:
    for _ in range(count):
        await client.call_tool("echo", {"text": TEXT})


async def main() -> None:
    medians: dict[str, list[float]] = {}
    rates: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as home:
        for _ in range(ROUNDS):
            async with recorded_wire(Path(home)) as recorded:
                cases = {
                    "SDK server, SDK stdio": this_script("sdk"),
                    "our server, our stdio": this_script("ours"),
                    "shim + wire + tap + SQLite": recorded,
                }
                for name, parameters in cases.items():
                    times, rate = await measure(parameters)
                    medians.setdefault(name, []).append(statistics.median(times))
                    rates.setdefault(name, []).append(rate)
    base = statistics.median(medians["SDK server, SDK stdio"])
    print(f"{'':28} {'ms/call':>8} {'ratio':>6} {'calls/s, 16 at once':>20}")
    for name, values in medians.items():
        median = statistics.median(values)
        print(f"{name:28} {median:8.3f} {median / base:6.2f} {statistics.median(rates[name]):20.0f}")


if __name__ == "__main__":
    mode = {"sdk": serve_by_sdk, "ours": serve_ours}.get(sys.argv[1] if sys.argv[1:] else "", main)
    anyio.run(mode)
