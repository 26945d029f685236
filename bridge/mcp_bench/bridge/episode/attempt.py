"""One agent at work on one world: launched, watched until it is over, ended, and read."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import anyio

from mcp_bench.bridge.episode.sandbox_access import access
from mcp_bench.bridge.isolation.level import Level
from mcp_bench.bridge.isolation.unconfined import Unconfined
from mcp_bench.bridge.process.agent import AgentProcess, LaunchError, agent_process
from mcp_bench.bridge.process.fork_server_process import ForkServer
from mcp_bench.bridge.tap.traffic import Seen, Traffic
from mcp_bench.bridge.wire.admission import Gate
from mcp_bench.bridge.wire.backend import SERVER_NAME, WorldBackend
from mcp_bench.bridge.wire.command_backend import CommandBackend
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.foreign_server import ForeignServer
from mcp_bench.bridge.wire.unix_socket import UnixSocketWire
from mcp_bench.plugins.contracts import (
    Agent,
    AgentOutput,
    Home,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Tools,
    Transcript,
)
from mcp_bench.recorder.records import PlannedEpisode, Termination
from mcp_bench.recorder.store.run_folder import RunFolder
from mcp_bench.servers.contracts import Benchmark, World
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.mcp_server import WorldSession

if TYPE_CHECKING:
    from mcp_bench.bridge.model_proxy.capture import ModelCapture
    from mcp_bench.bridge.wire.http import HttpWire

P = ParamSpec("P")
T = TypeVar("T")

STOP_SECONDS = 3.0
"""Between SIGTERM and SIGKILL, so that an agent can write its transcript to the end."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
"""What an agent in a sealed home gets of the user's environment, besides what its plugin asks for."""
OURS = "MCP_BENCH_"
"""What these variables tell is the referee's business, and no agent's."""


@dataclass(frozen=True)
class Setup:
    """What all episodes of a run have in common."""

    benchmark: Benchmark | None
    """None where the run is made with `server`."""
    agent: Agent
    installation: Installation
    timeout: float
    """Seconds for one attempt, where the task sets none."""
    model: str | None = None
    base_url: str | None = None
    tools: Tools = "mcp-only"
    home: Home = "sealed"
    options: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    server: ForeignServer | None = None
    capture: str | None = None
    """URL of the model endpoint, where the requests to it are captured."""
    level: Level = field(default_factory=Unconfined)
    """How the agent is kept apart from all that is not its episode's."""
    probes: Mapping[str, Any] = field(default_factory=dict)
    """What the probes of the level came to, by name."""
    weaker: tuple[str, ...] = ()
    """Why it is not kept apart by more than that."""
    one_at_a_time: str = ""
    """Why no two episodes may run at once; empty where any number may. See `rehearse`."""
    forks: ForkServer | None = None
    """Where agents that are Python of ours are started from, while a run goes on."""


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
    setup: Setup, run: RunFolder, planned: PlannedEpisode, episode: str, world: World | None, attempt: Attempt
) -> None:
    """Let the agent work until it is over, on `world` or else on the server that the run is made with; on
    return nothing of it is left running.

    Fills in `attempt` as it goes, so that a cancelled episode keeps what is known by then.
    """
    with ExitStack() as held:
        folder = held.enter_context(EpisodeFolder())
        try:
            played = await reference(setup, planned.task)
        except Exception as error:  # a benchmark's own code
            attempt.spoil("world_failed", told(error))
            return
        wire = open_wire(setup, run, planned, episode, world, folder, held)
        attempt.seen = wire.seen
        capture = open_capture(setup, run, episode, held)
        request = launch_request(setup, folder, planned.prompt, wire.server, played)
        request = replace(request, seed=planned.seed, repeat=planned.repeat)
        if capture is not None:
            request = replace(request, base_url=capture.base_url)
        stdout, stderr = run.log_path(episode, "stdout"), run.log_path(episode, "stderr")
        try:
            launch = asked(setup.agent.prepare, request)
            environ = environment(setup, folder, launch)
            fork = setup.forks.fork(launch.warm_start) if setup.forks else None
            async with agent_process(launch.stdin, stdout, stderr, fork) as process:
                wire.gate.root = process.supervisor_pid
                async with anyio.create_task_group() as tasks:
                    await tasks.start(wire.serve)
                    if capture is not None:
                        await tasks.start(capture.serve)
                    try:
                        confinement = None
                        if setup.level.name != "none":
                            needs = await anyio.to_thread.run_sync(
                                access, setup.installation, launch, folder.path, environ
                            )
                            confinement = held.enter_context(setup.level.confined(needs))
                        what = (launch.argv, environ, folder.workdir)
                        await process.launch(*what, confinement=confinement, warm_start=launch.warm_start)
                        timeout = planned.timeout or setup.timeout
                        attempt.termination = await until_over(process, timeout, wire.limit_reached)
                        attempt.exit_code = process.exit_code
                        await wire.drain()
                    except LaunchError as error:
                        attempt.spoil("launch_failed", f"the agent: {error}")
                    tasks.cancel_scope.cancel()
            if wire.fault is not None:
                attempt.spoil("server_died", wire.fault)
            code = attempt.exit_code
            output = AgentOutput(stdout, stderr, folder.home, folder.workdir, code, environ)
            attempt.transcript = asked(setup.agent.read, output, with_tools(wire.server, run, episode))
            if capture is not None and (fault := attempt.transcript.fault):
                fault.detail = capture.named(fault.detail)
        except PluginError as error:
            attempt.spoil("plugin_failed", str(error))


def open_wire(
    setup: Setup, run: RunFolder, planned: PlannedEpisode, episode: str, world: World | None,
    folder: EpisodeFolder, held: ExitStack,
) -> UnixSocketWire | HttpWire:  # fmt: skip
    """Make the agent's way to the world, or to the server that the run is made with."""
    gate = held.enter_context(Gate(episode, folder.token, run.recording))
    if world is not None:
        session = WorldSession(world, max_calls=planned.max_calls)
        return UnixSocketWire(gate, folder, WorldBackend(session), run.recording)
    assert setup.server is not None  # noqa: S101 - there is a world, or a server
    if setup.server.url is not None:
        from mcp_bench.bridge.wire.http import HttpWire

        traffic = Traffic(on_ready=folder.mark_ready)
        return held.enter_context(HttpWire(gate, setup.server.url, run.recording, traffic))
    backend = CommandBackend(setup.server.command, setup.environ, run.log_path(episode, "server"))
    return UnixSocketWire(gate, folder, backend, run.recording)


def open_capture(setup: Setup, run: RunFolder, episode: str, held: ExitStack) -> ModelCapture | None:
    """Make the agent's way to its model endpoint, where that is to be captured."""
    if setup.capture is None:
        return None
    from mcp_bench.bridge.model_proxy.capture import ModelCapture

    return held.enter_context(ModelCapture(episode, setup.capture, run.recording))


def with_tools(server: McpServer, run: RunFolder, episode: str) -> McpServer:
    """Return an agent's entry with the names of the tools, for the reading of its transcript."""
    if server.tools:
        return server
    names = tuple(tool.function.name for tool in run.recording.listed_tools(episode))
    return replace(server, tools=names)


def rehearse(setup: Setup) -> Setup:
    """Have a launch prepared that is never started: what is missing shows before there is a run.

    Returns:
        The setup, which says by now whether episodes have to wait for each other.

    Raises:
        BenchError: the agent has no login, an option makes no sense, ...
    """
    if setup.home == "native" and not setup.agent.capabilities.native:
        raise WrongUseError(
            f"agent {setup.agent.name!r} takes no server for one launch beside the user's own configuration: "
            "leave out --home native, or add the server there with `mcp-bench install` and work by hand"
        )
    with EpisodeFolder() as folder, suppress(PluginError):  # its episodes will tell of a bug
        launch = rehearsed(setup, folder)
        if launch.login is not None:
            return replace(setup, one_at_a_time=launch.login.alone)
    return setup


def rehearsed(setup: Setup, folder: EpisodeFolder) -> Launch:
    """Return a launch that is prepared in `folder` and never started."""
    nothing = b'{"calls": [], "answer": ""}' if setup.agent.capabilities.plays_reference else None
    url = None if setup.server is None else setup.server.url
    server = McpServer(SERVER_NAME, () if url else folder.server_command, (), url)
    return asked(setup.agent.prepare, launch_request(setup, folder, "rehearsal", server, nothing))


def launch_request(
    setup: Setup, folder: EpisodeFolder, prompt: str, server: McpServer, played: bytes | None
) -> LaunchRequest:
    return LaunchRequest(
        prompt=prompt,
        home=folder.home,
        workdir=folder.workdir,
        server=server,
        installation=setup.installation,
        model=setup.model,
        base_url=setup.capture or setup.base_url,
        tools=setup.tools,
        options=setup.options,
        environ=setup.environ,
        reference=played,
        ready=folder.ready,
        native=setup.home == "native",
        isolated=setup.level.name != "none",
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
    if setup.benchmark is None or not setup.agent.capabilities.plays_reference:
        return None
    found = await anyio.to_thread.run_sync(setup.benchmark.reference, task)
    return None if found is None else found.model_dump_json().encode()


def environment(setup: Setup, folder: EpisodeFolder, launch: Launch) -> dict[str, str]:
    """Return the agent's whole environment: little of the user's, a private HOME, its plugin's.

    In the user's own home it is all of the user's, but for what is ours, and its plugin's.
    """
    if setup.home == "native":
        own = {name: value for name, value in setup.environ.items() if not name.startswith(OURS)}
        return {**own, **launch.env}
    passed_on = {name: setup.environ[name] for name in PASSED_ON if name in setup.environ}
    private = {"HOME": str(folder.home), "TMPDIR": str(folder.scratch)}
    return {"LANG": "C.UTF-8", **passed_on, **private, **launch.env}
