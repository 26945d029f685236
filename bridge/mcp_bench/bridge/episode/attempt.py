"""Run one agent on one world: launch it, watch it until it ends, clean up, and read its transcript."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import anyio

from mcp_bench.bridge.episode.plan import full_prompt
from mcp_bench.bridge.episode.reply_tool import conversing
from mcp_bench.bridge.episode.sandbox_access import access
from mcp_bench.bridge.episode.solution import solution
from mcp_bench.bridge.isolation.level import Confinement, Level
from mcp_bench.bridge.isolation.none import Unconfined
from mcp_bench.bridge.process.agent import SILENCE_SECONDS, AgentProcess, LaunchError, agent_process
from mcp_bench.bridge.process.fork_server_process import ForkServer
from mcp_bench.bridge.process.limits import AgentLimits
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
from mcp_bench.servers.mcp_server.server import WorldSession

if TYPE_CHECKING:
    from mcp_bench.bridge.model_proxy.capture import ModelCapture
    from mcp_bench.bridge.wire.http import HttpWire

P = ParamSpec("P")
T = TypeVar("T")

STOP_SECONDS = 3.0
"""Between SIGTERM and SIGKILL, so that an agent can finish writing its transcript."""
LAST_WORDS_SECONDS = 15.0
"""For an agent whose world is over, to say what it has to say and to exit."""
PASSED_ON = ("PATH", "LANG", "LC_ALL", "TZ")
"""Variables of the user's environment that an agent in a sealed home gets; its plugin can ask for more."""
OURS = "MCP_BENCH_"
"""Prefix of variables that no agent may see."""


@dataclass(frozen=True)
class Setup:
    """Settings shared by all episodes of a run."""

    benchmark: Benchmark | None
    """None for a run on `server`."""
    agent: Agent
    installation: Installation
    timeout: float
    """Seconds for one attempt, unless the task sets its own limit."""
    model: str | None = None
    base_url: str | None = None
    tools: Tools = "mcp-only"
    home: Home = "sealed"
    options: Mapping[str, str] = field(default_factory=dict)
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    server: ForeignServer | None = None
    capture: str | None = None
    """URL of the model endpoint, if requests to it are captured."""
    level: Level = field(default_factory=Unconfined)
    """Isolation level."""
    probes: Mapping[str, Any] = field(default_factory=dict)
    """Results of the level's probes, by name."""
    refused_levels: tuple[str, ...] = ()
    """Stronger levels that do not work here, each with the reason."""
    limits: AgentLimits = field(default_factory=AgentLimits)
    """What one agent may use of the machine."""
    one_at_a_time: str = ""
    """Why episodes must not run in parallel, or empty if they can. See `dry_run`."""
    fork_server: ForkServer | None = None
    """Starts our own Python clients quickly while a run is in progress."""


@dataclass
class Attempt:
    """What is known about an attempt after all processes of the agent are gone."""

    termination: Termination | None = None
    exit_code: int | None = None
    transcript: Transcript = field(default_factory=Transcript)
    seen: Seen = field(default_factory=Seen)
    invalid: str | None = None
    detail: str | None = None
    on_its_word: bool = False
    """Whether `invalid` rests on what the agent did or wrote, and not on what the referee saw itself."""
    endpoint_failed: bool = False
    """Whether the capture proxy saw the model endpoint fail at the end."""
    rewards: Sequence[float | None] = ()
    """Of the calls that the world executed, in their order."""

    def invalidate(self, reason: str, detail: str, *, on_its_word: bool = False) -> None:
        """Mark the attempt invalid; the first reason stands."""
        if self.invalid is None:
            self.invalid, self.detail, self.on_its_word = reason, detail, on_its_word

    def count(self) -> None:
        """Let the attempt count although its agent reports a failure: the report becomes the detail."""
        self.detail = f"{self.invalid}: {self.detail}"
        self.invalid, self.on_its_word = None, False


class PluginError(Exception):
    """An agent's plugin raised an error that is not meant for the user: a bug in the plugin."""


async def work(
    setup: Setup, run: RunFolder, planned: PlannedEpisode, episode: str, world: World | None, attempt: Attempt
) -> None:
    """Run the agent until it ends, on `world` or else on the run's server. On return, no process is left.

    Fills in `attempt` step by step, so a cancelled episode keeps what is known at that point.
    """
    async with AsyncExitStack() as held:
        try:
            folder = await held.enter_async_context(EpisodeFolder())
        except BenchError as error:  # the disk is full: the next attempt may find room
            attempt.invalidate("launch_failed", str(error))
            return
        try:
            reference = await reference_calls(setup, planned)
            session = None if world is None else world_session(world, planned)
            wire = open_wire(setup, run, episode, session, folder, held)
        except (Exception, SystemExit) as error:  # a benchmark's own code
            if world is None:
                raise
            attempt.invalidate("world_failed", error_text(error))
            return
        attempt.seen = wire.seen
        if session is not None:
            attempt.rewards = session.rewards  # filled in as calls are executed
        capture = open_capture(setup, run, episode, held)
        request = launch_request(setup, folder, full_prompt(planned), wire.server, reference)
        request = replace(request, seed=planned.seed, repeat=planned.repeat)
        if capture is not None:
            request = replace(request, base_url=capture.base_url)
        stdout, stderr = run.log_path(episode, "stdout"), run.log_path(episode, "stderr")
        try:
            launch = call_plugin(setup.agent.prepare, request)
        except PluginError as error:
            full = isinstance(error.__cause__, OSError)  # of the folder, which is ours
            attempt.invalidate("launch_failed" if full else "plugin_failed", str(error))
            return
        environ = environment(setup, folder, launch)
        fork = setup.fork_server.fork(launch.warm_start) if setup.fork_server else None
        try:
            async with (
                agent_process(launch.stdin, stdout, stderr, fork) as process,
                anyio.create_task_group() as tasks,
            ):
                wire.gate.root = process.supervisor_pid
                await tasks.start(wire.serve)
                if capture is not None:
                    capture.root = process.supervisor_pid
                    await tasks.start(capture.serve)
                try:
                    confinement = await confine(setup, launch, folder, environ, held)
                    await process.launch(
                        launch.argv, environ, folder.workdir,
                        confinement=confinement, warm_start=launch.warm_start,
                        limits=(setup.limits, folder.path),
                    )  # fmt: skip
                    timeout = planned.timeout or setup.timeout
                    attempt.termination = await until_over(process, timeout, wire.cut_off)
                    attempt.exit_code = process.exit_code
                    await wire.drain()
                except LaunchError as error:
                    attempt.invalidate("launch_failed", f"the agent: {error}")
                tasks.cancel_scope.cancel()
        except LaunchError as error:  # its supervisor could not be started
            attempt.invalidate("launch_failed", str(error))
            return
        note_ending(run, episode, process)
        if wire.fault is not None:
            attempt.invalidate("server_died", wire.fault)
        output = AgentOutput(
            stdout, stderr, folder.home, folder.workdir, attempt.exit_code, environ, folder.held_home
        )
        try:
            attempt.transcript = call_plugin(setup.agent.read, output, with_tools(wire.server, run, episode))
        except (PluginError, BenchError) as error:  # perhaps a bug, perhaps what the agent wrote
            attempt.invalidate("plugin_failed", str(error), on_its_word=True)
        if capture is not None:
            attempt.endpoint_failed = capture.failed
            if fault := attempt.transcript.fault:
                fault.detail = capture.named(fault.detail)


def note_ending(run: RunFolder, episode: str, process: AgentProcess) -> None:
    """Store why an agent was ended, and what could not be. It is the agent's doing, so it is graded."""
    if process.over:
        run.recording.flag(episode, "over_limit", process.over)
    if process.left:
        run.recording.flag(episode, "not_ended", f"{process.left} processes could not be ended")


async def reference_calls(setup: Setup, planned: PlannedEpisode) -> bytes | None:
    """Return the task's reference calls as JSON, if the agent is trusted with them."""
    if setup.benchmark is None or not setup.agent.capabilities.plays_reference:
        return None
    found = await solution(setup.benchmark, planned)
    return None if found is None else found.model_dump_json().encode()


def world_session(world: World, planned: PlannedEpisode) -> WorldSession:
    """Return what all connections of an attempt share."""
    limits = planned.limits
    return WorldSession(conversing(world), max_calls=planned.max_calls, call_seconds=limits.call_seconds)


def open_wire(
    setup: Setup, run: RunFolder, episode: str, session: WorldSession | None, folder: EpisodeFolder,
    held: AsyncExitStack,
) -> UnixSocketWire | HttpWire:  # fmt: skip
    """Open the agent's connection to the world, or to the run's server."""
    gate = held.enter_context(Gate(episode, folder.token, run.recording))
    if session is not None:
        return UnixSocketWire(gate, folder, WorldBackend(session), run.recording)
    assert setup.server is not None  # noqa: S101 - there is a world, or a server
    if setup.server.url is not None:
        from mcp_bench.bridge.wire.http import HttpWire

        traffic = Traffic(on_ready=folder.mark_ready)
        return held.enter_context(HttpWire(gate, setup.server.url, run.recording, traffic))
    backend = CommandBackend(setup.server.command, setup.environ, run.log_path(episode, "server"))
    return UnixSocketWire(gate, folder, backend, run.recording)


def open_capture(setup: Setup, run: RunFolder, episode: str, held: AsyncExitStack) -> ModelCapture | None:
    """Open the proxy between the agent and its model endpoint, if requests are captured."""
    if setup.capture is None:
        return None
    from mcp_bench.bridge.model_proxy.capture import ModelCapture

    return held.enter_context(ModelCapture(episode, setup.capture, run.recording))


async def confine(
    setup: Setup, launch: Launch, folder: EpisodeFolder, environ: Mapping[str, str], held: AsyncExitStack
) -> Confinement | None:
    """Prepare the sandbox for a launch. Call it when everything in the episode's folder exists."""
    if setup.level.name == "none":
        return None
    needs = await anyio.to_thread.run_sync(access, setup.installation, launch, folder.path, environ)
    return held.enter_context(setup.level.confined(needs))


async def until_over(
    process: AgentProcess, timeout: float, cut_off: Callable[[], Awaitable[Termination]]
) -> Termination:
    """Wait for the agent to exit; stop it after `timeout` seconds, or when the attempt must end.

    If the world is over, the agent has some seconds for its last words.
    """
    cut: list[Termination] = []

    async def timed_out() -> Termination:
        await anyio.sleep(timeout)
        return "timeout"

    async def cut_after(event: Callable[[], Awaitable[Termination]]) -> None:
        reason = await event()
        if reason == "world_over":
            await anyio.sleep(LAST_WORDS_SECONDS)
        cut.append(reason)
        await process.stop(STOP_SECONDS)
        await anyio.sleep(STOP_SECONDS + SILENCE_SECONDS)
        watch.cancel_scope.cancel()  # its supervisor does not work any more; ending kills it

    async with anyio.create_task_group() as watch:
        watch.start_soon(cut_after, timed_out)
        watch.start_soon(cut_after, cut_off)
        await process.wait()
        watch.cancel_scope.cancel()
    if cut:
        return cut[0]
    return "agent_exit" if process.exit_code == 0 else "crash"


def with_tools(server: McpServer, run: RunFolder, episode: str) -> McpServer:
    """Return the server with its tool names, which a plugin needs to read a transcript."""
    if server.tools:
        return server
    names = tuple(tool.function.name for tool in run.recording.listed_tools(episode))
    return replace(server, tools=names)


def launch_request(
    setup: Setup, folder: EpisodeFolder, prompt: str, server: McpServer, reference: bytes | None
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
        reference=reference,
        ready=folder.ready,
        native=setup.home == "native",
        isolated=setup.level.name != "none",
    )


def environment(setup: Setup, folder: EpisodeFolder, launch: Launch) -> dict[str, str]:
    """Return the agent's whole environment.

    In a sealed home: a few of the user's variables, a private HOME, and what the plugin sets. In the user's
    own home: all of the user's variables except ours, and what the plugin sets.
    """
    if setup.home == "native":
        own = {name: value for name, value in setup.environ.items() if not name.startswith(OURS)}
        return {**own, **launch.env}
    passed_on = {name: setup.environ[name] for name in PASSED_ON if name in setup.environ}
    private = {"HOME": str(folder.home), "TMPDIR": str(folder.scratch)}
    return {"LANG": "C.UTF-8", **passed_on, **private, **launch.env}


def dry_run(setup: Setup) -> Setup:
    """Prepare a launch without starting it, so that problems show before there is a run.

    Returns:
        The setup, with `one_at_a_time` filled in.

    Raises:
        BenchError: the agent has no login, an option makes no sense, ...
    """
    if setup.home == "native" and not setup.agent.capabilities.native:
        raise WrongUseError(
            f"agent {setup.agent.name!r} cannot add a server to the user's own configuration for one launch. "
            "Leave out --home native, or add the server with `mcp-bench install` and use it interactively"
        )
    with EpisodeFolder() as folder, suppress(PluginError):  # the episodes will report a bug in the plugin
        launch = dry_launch(setup, folder)
        if launch.login is not None:
            return replace(setup, one_at_a_time=launch.login.alone)
    return setup


def dry_launch(setup: Setup, folder: EpisodeFolder) -> Launch:
    """Return a launch that is prepared in `folder` but never started."""
    nothing = b'{"calls": [], "answer": ""}' if setup.agent.capabilities.plays_reference else None
    url = None if setup.server is None else setup.server.url
    server = McpServer(SERVER_NAME, () if url else folder.server_command, (), url)
    return call_plugin(setup.agent.prepare, launch_request(setup, folder, "dry run", server, nothing))


def call_plugin(step: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call into an agent's plugin.

    Raises:
        BenchError: an error for the user, which is likely to hit every episode.
        PluginError: a bug in the plugin, which invalidates the episode but does not end the run.
    """
    try:
        return step(*args, **kwargs)
    except BenchError:
        raise
    except Exception as error:
        raise PluginError(f"{step.__qualname__} raised {type(error).__name__}: {error}") from error


def error_text(error: BaseException) -> str:
    """Return an error in one line; our own errors are already worded for users."""
    return str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
