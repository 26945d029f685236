"""One agent at work on one world: launched, watched until it is over, ended, and read."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import ParamSpec, TypeVar

import anyio

from mcp_bench.bridge.agent_process import AgentProcess, LaunchError, agent_process
from mcp_bench.bridge.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire import SERVER_NAME, Seen, Wire
from mcp_bench.plugins.contracts import (
    Agent,
    AgentOutput,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Tools,
    Transcript,
)
from mcp_bench.recorder.records import PlannedEpisode, Termination
from mcp_bench.recorder.run_folder import RunFolder
from mcp_bench.servers.contracts import Benchmark, World
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.mcp_server import WorldSession

P = ParamSpec("P")
T = TypeVar("T")

STOP_SECONDS = 3.0
"""Between SIGTERM and SIGKILL, so that an agent can write its transcript to the end."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
"""What an agent gets of the user's environment, besides what its plugin asks for."""


@dataclass(frozen=True)
class Setup:
    """What all episodes of a run have in common."""

    benchmark: Benchmark
    agent: Agent
    installation: Installation
    timeout: float
    """Seconds for one attempt, where the task sets none."""
    model: str | None = None
    base_url: str | None = None
    tools: Tools = "mcp-only"
    options: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))


@dataclass
class Attempt:
    """What is known of an attempt once every process of the agent is gone."""

    termination: Termination | None = None
    exit_code: int | None = None
    transcript: Transcript = field(default_factory=Transcript)
    seen: Seen = field(default_factory=Seen)
    invalid: str | None = None
    detail: str | None = None

    def spoil(self, reason: str, detail: str) -> None:
        """Mark the attempt invalid; the first reason stands."""
        if self.invalid is None:
            self.invalid, self.detail = reason, detail


class PluginError(Exception):
    """An agent's plugin raised something that is not meant for the user: a bug in it."""


async def work(
    setup: Setup, run: RunFolder, planned: PlannedEpisode, episode: str, world: World, attempt: Attempt
) -> None:
    """Let the agent work until it is over; on return nothing of it is left running.

    Fills in `attempt` as it goes, so that a cancelled episode keeps what is known by then.
    """
    with EpisodeFolder() as folder:
        names = tuple(tool.name for tool in world.tools())
        try:
            played = await reference(setup, planned.task)
        except Exception as error:  # a benchmark's own code
            attempt.spoil("world_failed", told(error))
            return
        request = launch_request(setup, folder, planned.prompt, names, played)
        stdout, stderr = run.log_path(episode, "stdout"), run.log_path(episode, "stderr")
        try:
            launch = asked(setup.agent.prepare, request)
            async with agent_process(launch.stdin, stdout, stderr) as process:
                session = WorldSession(world, max_calls=planned.max_calls)
                wire = Wire(episode, folder, session, run.recording, root=process.supervisor_pid)
                attempt.seen = wire.seen
                async with anyio.create_task_group() as tasks:
                    await tasks.start(wire.serve)
                    try:
                        await process.launch(launch.argv, environment(setup, folder, launch), folder.workdir)
                        timeout = planned.timeout or setup.timeout
                        attempt.termination = await until_over(process, timeout, session.limit_reached.wait)
                        attempt.exit_code = process.exit_code
                        await wire.drain()
                    except LaunchError as error:
                        attempt.spoil("launch_failed", str(error))
                    tasks.cancel_scope.cancel()
            output = AgentOutput(stdout, stderr, folder.home, folder.workdir, attempt.exit_code)
            attempt.transcript = asked(setup.agent.read, output, request.server)
        except PluginError as error:
            attempt.spoil("plugin_failed", str(error))


def rehearse(setup: Setup) -> None:
    """Have a launch prepared that is never started: what is missing shows before there is a run.

    Raises:
        BenchError: the agent has no login, an option makes no sense, ...
    """
    nothing = b'{"calls": [], "answer": ""}' if setup.agent.capabilities.plays_reference else None
    with EpisodeFolder() as folder, suppress(PluginError):  # its episodes will tell of a bug
        asked(setup.agent.prepare, launch_request(setup, folder, "rehearsal", (), nothing))


def launch_request(
    setup: Setup, folder: EpisodeFolder, prompt: str, tools: tuple[str, ...], played: bytes | None
) -> LaunchRequest:
    return LaunchRequest(
        prompt=prompt,
        home=folder.home,
        workdir=folder.workdir,
        server=McpServer(SERVER_NAME, folder.server_command, tools),
        installation=setup.installation,
        model=setup.model,
        base_url=setup.base_url,
        tools=setup.tools,
        options=setup.options,
        environ=setup.environ,
        reference=played,
        ready=folder.ready,
    )


def asked(step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call into an agent's plugin; a bug there spoils the episode, not the run."""
    try:
        return step(*args, **kwargs)
    except BenchError:
        raise  # worded for the user, and likely to hit every episode
    except Exception as error:
        raise PluginError(f"{step.__qualname__} raised {type(error).__name__}: {error}") from error


def told(error: Exception) -> str:
    """Return an error in one line; those of ours are worded for people already."""
    return str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"


async def until_over(
    process: AgentProcess, timeout: float, limit_reached: Callable[[], Awaitable[object]]
) -> Termination:
    """Wait for the agent to end by itself, or end it after `timeout` seconds or too many calls."""
    cut: list[Termination] = []

    async def cut_after(event: Callable[[], Awaitable[object]], reason: Termination) -> None:
        await event()
        cut.append(reason)
        await process.stop(STOP_SECONDS)

    async with anyio.create_task_group() as watch:
        watch.start_soon(cut_after, partial(anyio.sleep, timeout), "timeout")
        watch.start_soon(cut_after, limit_reached, "max_calls")
        code = await process.wait()
        watch.cancel_scope.cancel()
    if cut:
        return cut[0]
    return "agent_exit" if code == 0 else "crash"


async def reference(setup: Setup, task: str) -> bytes | None:
    """Return the reference calls as JSON, for an agent that is trusted with them."""
    if not setup.agent.capabilities.plays_reference:
        return None
    found = await anyio.to_thread.run_sync(setup.benchmark.reference, task)
    return None if found is None else found.model_dump_json().encode()


def environment(setup: Setup, folder: EpisodeFolder, launch: Launch) -> dict[str, str]:
    """Return the agent's whole environment: little of the user's, a private HOME, its plugin's."""
    passed_on = {name: setup.environ[name] for name in PASSED_ON if name in setup.environ}
    private = {"HOME": str(folder.home), "TMPDIR": str(folder.scratch)}
    return {"LANG": "C.UTF-8", **passed_on, **private, **launch.env}
