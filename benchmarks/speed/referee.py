"""A referee without agents: an episode folder, a world and a wire for each of N episodes.

The benchmark scripts start it, and act as the launched agents. It prints one JSON line with the shims'
commands, serves until stdin ends, and prints a second line with its counts. `--relay` omits tap and
recording; `--stdio` also omits shim and socket. Both show what these parts cost.
"""

import json
import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
from anyio.abc import SocketStream, TaskStatus

from mcp_bench.bridge.wire.admission import Gate
from mcp_bench.bridge.wire.backend import WorldBackend
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.unix_socket import UnixSocketWire
from mcp_bench.recorder.records import EpisodeEnd, EpisodeStart, PlannedEpisode, RunInfo, new_id, now_us
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec, World
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.mcp_server.server import WorldSession, serve
from mcp_bench.servers.mcp_server.stdio import serve_stdio
from mcp_bench.servers.registry import load


class EchoWorld:
    """A world with one tool, which returns its argument."""

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


async def world(task: str) -> World:
    return EchoWorld() if task == "echo" else await load("benchmark", "saasworld").open(task)


@contextmanager
def new_run(root: Path, task: str, episodes: int) -> Iterator[RunFolder]:
    plan = [
        PlannedEpisode(task=task, split="none", domain="none", prompt="load", repeat=repeat)
        for repeat in range(episodes)
    ]
    info = RunInfo(
        id=new_id("run"),
        created_us=now_us(),
        benchmark="load",
        benchmark_version="1",
        agent="load",
        agent_version="1",
        isolation="none",
        home="sealed",
        tools="mcp-only",
        plan=plan,
    )
    with RunFolder.create(info, root=root) as run:
        yield run


async def relay(
    folder: EpisodeFolder, session: WorldSession, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED
) -> None:
    """Serve a shim's connection directly. The token is read and ignored."""

    async def handle(client: SocketStream) -> None:
        async with client:
            await client.receive(len(folder.token) + 1)
            await serve(session, client, name="bench")

    async with await anyio.create_unix_listener(folder.socket) as listener:
        task_status.started()
        await listener.serve(handle)


async def on_stdio(task: str) -> None:
    await serve_stdio(WorldSession(await world(task)), name="bench")


async def main(root: Path, task: str, episodes: int, relayed: bool) -> None:
    with ExitStack() as stack:
        run = stack.enter_context(new_run(root, task, episodes))
        wires: dict[str, UnixSocketWire] = {}
        folders: list[EpisodeFolder] = []
        async with anyio.create_task_group() as tasks:
            for planned in run.info.plan:
                folder = stack.enter_context(EpisodeFolder())
                folders.append(folder)
                session = WorldSession(await world(task))
                if relayed:
                    await tasks.start(relay, folder, session)
                    continue
                episode = new_id("ep")
                facts = planned.model_dump(include={"task", "split", "domain", "prompt", "seed", "repeat"})
                run.recording.begin_episode(EpisodeStart(id=episode, started_us=now_us(), **facts))
                gate = stack.enter_context(Gate(episode, folder.token, run.recording))
                gate.root = os.getppid()
                wires[episode] = UnixSocketWire(gate, folder, WorldBackend(session), run.recording)
                await tasks.start(wires[episode].serve)
            print(json.dumps([folder.server_command for folder in folders]), flush=True)
            await anyio.to_thread.run_sync(sys.stdin.read)
            for episode, wire in wires.items():
                await wire.drain()
                end = EpisodeEnd(
                    termination="agent_exit", connections=wire.seen.connections, ended_us=now_us()
                )
                run.recording.end_episode(episode, end, [])
            tasks.cancel_scope.cancel()
        counts = {
            "recordings": str(run.path / "recordings.db"),
            "refused": sum(w.seen.refused for w in wires.values()),
        }
        print(json.dumps(counts), flush=True)


if __name__ == "__main__":
    parser = ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("--task", default="echo")
    parser.add_argument("--episodes", type=int, default=1)
    parser.add_argument("--relay", action="store_true")
    parser.add_argument("--stdio", action="store_true")
    options = parser.parse_args()
    if options.stdio:
        anyio.run(on_stdio, options.task)
    else:
        anyio.run(main, options.root, options.task, options.episodes, options.relay)
