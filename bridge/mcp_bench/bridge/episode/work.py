"""Run one agent on one world: launch it, watch it until it ends, clean up, and read its transcript.

An agent that continues its session is launched once for each turn of its user.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import anyio

from mcp_bench.bridge.episode.attempt import (
    Attempt,
    PluginError,
    Setup,
    blame,
    call_plugin,
    confine,
    environment,
    error_text,
    launch_request,
    with_tools,
)
from mcp_bench.bridge.episode.ending import note_ending, until_over
from mcp_bench.bridge.episode.in_sandbox import Door, door_of
from mcp_bench.bridge.episode.reply_tool import continues, conversing, user_turn
from mcp_bench.bridge.episode.solution import solution
from mcp_bench.bridge.harness.world import described, equipped
from mcp_bench.bridge.isolation.level import Confinement
from mcp_bench.bridge.process.agent import AgentProcess, LaunchError, agent_process, launch_errors
from mcp_bench.bridge.process.in_process import InProcessAgent, agent_in_process
from mcp_bench.bridge.roles.episode_host import EpisodeHost
from mcp_bench.bridge.tap.traffic import Traffic
from mcp_bench.bridge.wire.admission import Gate
from mcp_bench.bridge.wire.backend import SERVER_NAME, WorldBackend
from mcp_bench.bridge.wire.command_backend import CommandBackend
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.unix_socket import UnixSocketWire
from mcp_bench.clients.config import SocketEntry
from mcp_bench.plugins.contracts import AgentOutput, Launch, Resumes
from mcp_bench.recorder.conversations.user_turns import LEFT, with_heard
from mcp_bench.recorder.isolation_levels import IN_PROCESS
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.contracts import ToolSpec, World
from mcp_bench.servers.errors import BenchError, SandboxEndedError
from mcp_bench.servers.mcp_server.cancellation import is_own_failure
from mcp_bench.servers.mcp_server.server import WorldSession
from mcp_bench.servers.sandbox import SandboxError

if TYPE_CHECKING:
    from mcp_bench.bridge.model_proxy.capture import ModelCapture
    from mcp_bench.bridge.wire.http import HttpWire


async def work(
    setup: Setup,
    run: RunFolder,
    planned: PlannedEpisode,
    episode: str,
    world: World | None,
    attempt: Attempt,
    host: EpisodeHost,
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
            door = door_of(world) if setup.inside else None
            session = None if world is None else world_session(setup, world, planned)
            later = await later_tools(setup, session)
            wire = open_wire(setup, run, episode, session, folder, held, later)
        except BaseException as error:  # a benchmark's own code
            if world is None or not is_own_failure(error):
                raise
            attempt.invalidate("world_failed", error_text(error))
            return
        attempt.seen = wire.seen
        if session is not None:
            attempt.rewards = session.rewards  # filled in as calls are executed
            host.on_failure = session.over.set
        try:
            with launch_errors():
                listener = None if door is None else await door.listener()
                capture = open_capture(setup, run, episode, held, listener)
        except BenchError as error:
            if door is None and not isinstance(error, LaunchError):
                raise
            attempt.invalidate("launch_failed", str(error))
            return
        request = launch_request(setup, folder, planned.prompt, wire.server, reference, planned.system, door)
        request = replace(request, seed=planned.seed, repeat=planned.repeat)
        if capture is not None:
            request = replace(request, base_url=capture.base_url)
        talks = session is not None and world is not None and continues(setup.agent, world)
        request = replace(request, resumable=talks)
        try:
            launch = call_plugin(setup.agent.prepare, request)
        except PluginError as error:
            full = isinstance(error.__cause__, OSError)  # of the folder, which is ours
            attempt.invalidate("launch_failed" if full else "plugin_failed", str(error))
            return
        end = anyio.current_time() + (planned.timeout or setup.timeout)
        launches = Launches(setup, run, episode, folder, wire, capture, held, attempt, host, end, door)
        async with anyio.create_task_group() as tasks:
            if capture is not None:
                await tasks.start(capture.serve)
            try:
                await take_turns(launches, wire, launch, session if talks else None)
            except LaunchError as error:  # its supervisor could not be started
                attempt.invalidate("launch_failed", str(error))
            finally:
                if door is not None:
                    await end_inside(door, attempt)
            tasks.cancel_scope.cancel()
        if wire.fault is not None:
            attempt.invalidate("server_died", wire.fault)


async def take_turns(
    launches: Launches, wire: UnixSocketWire | HttpWire, first: Launch, session: WorldSession | None
) -> None:
    """Launch the agent, and again for each further message of its user. Its transcript has all turns.

    Args:
        session: the world's, if the agent gets the user's messages in its own session.

    Raises:
        LaunchError: a supervisor could not be started.
    """
    attempt, agent, recording = launches.attempt, launches.setup.agent, launches.run.recording
    heard: list[tuple[int, str]] = []
    launch: Launch | None = first
    try:
        while launch is not None:
            output, launch = await launches.run_agent(launch), None
            if launches.door is not None and session is None:
                await end_inside(launches.door, attempt)  # nobody writes what is read now
            if not await launches.read(output):
                break
            transcript = attempt.transcript
            if session is None or attempt.termination != "agent_exit" or transcript.fault is not None:
                break
            attempt.resumed = True
            wire.seen.connections += 1
            said, number = transcript.answer or "", wire.seen.connections
            with anyio.CancelScope(deadline=launches.end) as limit:
                answer = await user_turn(session, recording, launches.episode, number, said)
            if limit.cancelled_caught:
                attempt.termination = "timeout"
            elif answer.is_error:
                blame(attempt, launches.host)  # the reason that is noted first stands
                attempt.invalidate("world_failed", answer.text)
            elif answer.text != LEFT and isinstance(agent, Resumes) and isinstance(wire, UnixSocketWire):
                heard.append((len(transcript.messages), answer.text))
                try:
                    launch = call_plugin(agent.resume, first, answer.text, output)
                except PluginError as error:
                    attempt.invalidate("plugin_failed", str(error))
                wire.reopen()
    finally:
        attempt.transcript.messages = with_heard(attempt.transcript.messages, heard)


@dataclass
class Launches:
    """What the launches of one attempt share."""

    setup: Setup
    run: RunFolder
    episode: str
    folder: EpisodeFolder
    wire: UnixSocketWire | HttpWire
    capture: ModelCapture | None
    held: AsyncExitStack
    attempt: Attempt
    host: EpisodeHost
    end: float
    """When the attempt must end, on the event loop's clock."""
    door: Door | None = None
    """Of the task's sandbox, if the agent works there."""
    _confinement: list[Confinement | None] = field(default_factory=list)

    async def run_agent(self, launch: Launch) -> AgentOutput:
        """Run the agent until it ends. On return, no process of it is left.

        Raises:
            LaunchError: its supervisor could not be started.
        """
        setup, wire, folder, attempt = self.setup, self.wire, self.folder, self.attempt
        stdout, stderr = (self.run.log_path(self.episode, name) for name in ("stdout", "stderr"))
        environ = environment(setup, folder, launch)
        if self.door is not None:
            environ = self.door.environment(environ)
        forks = setup.fork_server if self.door is None else None
        place: AbstractAsyncContextManager[AgentProcess | InProcessAgent]
        if setup.level.name == IN_PROCESS:
            server = SocketEntry(SERVER_NAME, str(folder.socket), folder.token)
            place = agent_in_process(launch, stdout, stderr, server)
        else:
            fork = forks.fork(launch.warm_start) if forks else None
            place = agent_process(launch.stdin, stdout, stderr, fork)
        async with place as process, anyio.create_task_group() as tasks:
            wire.gate.root = process.supervisor_pid
            await tasks.start(wire.serve)
            if self.capture is not None:
                self.capture.root = process.supervisor_pid
            try:
                if not self._confinement:
                    self._confinement.append(await self._confined(launch, environ))
                await process.launch(
                    launch.argv,
                    environ,
                    folder.workdir,
                    confinement=self._confinement[0],
                    warm_start=launch.warm_start if forks else None,
                    limits=(setup.limits, folder.path),
                )
                left = max(self.end - anyio.current_time(), 0.0)
                attempt.termination = await until_over(process, left, wire.cut_off)
                attempt.exit_code = process.exit_code
                await wire.drain()
            except LaunchError as error:
                attempt.invalidate("launch_failed", f"the agent: {error}")
            tasks.cancel_scope.cancel()
        note_ending(self.run, self.episode, process)
        return AgentOutput(
            stdout, stderr, folder.home, folder.workdir, attempt.exit_code, environ, folder.held_home
        )

    async def _confined(self, launch: Launch, environ: Mapping[str, str]) -> Confinement | None:
        """Prepare the sandbox.

        Raises:
            LaunchError: there is no room for it, or no free user id.
        """
        try:
            with launch_errors():
                return await confine(self.setup, launch, self.folder, environ, self.held, self.door)
        except BenchError as error:
            raise LaunchError(str(error)) from error

    async def read(self, output: AgentOutput) -> bool:
        """Read the agent's transcript of all launches so far; return whether that was possible.

        In a thread: an agent can write a lot, and other episodes go on.
        """
        attempt, capture = self.attempt, self.capture
        try:
            known = with_tools(self.wire.server, self.run, self.episode)
            attempt.transcript = await anyio.to_thread.run_sync(
                call_plugin, self.setup.agent.read, output, known
            )
        except (PluginError, BenchError) as error:  # perhaps a bug, perhaps what the agent wrote
            attempt.invalidate("plugin_failed", str(error), on_its_word=True)
            return False
        if capture is not None:
            attempt.endpoint_failed = capture.failed
            if fault := attempt.transcript.fault:
                fault.detail = capture.named(fault.detail)
        return attempt.invalid is None


async def reference_calls(setup: Setup, planned: PlannedEpisode) -> bytes | None:
    """Return the task's reference calls as JSON, if the agent is trusted with them."""
    if setup.benchmark is None or not setup.agent.capabilities.plays_reference:
        return None
    found = await solution(setup.benchmark, planned, planned.timeout or setup.timeout)
    return None if found is None else found.model_dump_json().encode()


def world_session(setup: Setup, world: World, planned: PlannedEpisode) -> WorldSession:
    """Return what all connections of an attempt share."""
    limits, talking = planned.limits, conversing(world, listed=not continues(setup.agent, world))
    return WorldSession(
        equipped(talking, setup.harness, planned.task),
        max_calls=planned.max_calls,
        call_seconds=limits.call_seconds,
    )


async def later_tools(setup: Setup, session: WorldSession | None) -> Sequence[ToolSpec]:
    """Return the tools that a world can get, if its tools change."""
    if setup.benchmark is None or session is None or not session.changes_tools:
        return ()
    return described(await anyio.to_thread.run_sync(setup.benchmark.tools), setup.harness)


def open_wire(
    setup: Setup,
    run: RunFolder,
    episode: str,
    session: WorldSession | None,
    folder: EpisodeFolder,
    held: AsyncExitStack,
    later: Sequence[ToolSpec],
) -> UnixSocketWire | HttpWire:
    """Open the agent's connection to the world, or to the run's server."""
    gate = held.enter_context(Gate(episode, folder.token, run.recording))
    if session is not None:
        wire = UnixSocketWire(gate, folder, WorldBackend(session, later), run.recording)
        held.push_async_callback(wire.close)
        return wire
    assert setup.server is not None  # noqa: S101 - there is a world, or a server
    if setup.server.url is not None:
        from mcp_bench.bridge.wire.http import HttpWire

        traffic = Traffic(on_ready=folder.mark_ready)
        return held.enter_context(HttpWire(gate, setup.server.url, run.recording, traffic))
    backend = CommandBackend(setup.server.command, setup.environ, run.log_path(episode, "server"))
    wire = UnixSocketWire(gate, folder, backend, run.recording)
    held.push_async_callback(wire.close)
    return wire


async def end_inside(door: Door, attempt: Attempt) -> None:
    """End what an agent has left running in its sandbox: its supervisor does not inherit that."""
    try:
        with anyio.CancelScope(shield=True):
            await door.sandbox.halt()
    except SandboxEndedError:
        return  # by what the agent did
    except SandboxError as error:
        if not door.sandbox.over:
            attempt.invalidate("world_failed", str(error))
    finally:
        attempt.killed_all = attempt.killed_all or door.killed_all()


def open_capture(
    setup: Setup, run: RunFolder, episode: str, held: AsyncExitStack, listener: socket.socket | None
) -> ModelCapture | None:
    """Open the proxy between the agent and its model endpoint, if requests are captured.

    Args:
        listener: where it listens, if the agent works inside a sandbox.
    """
    if setup.capture is None:
        return None
    from mcp_bench.bridge.model_proxy.capture import ModelCapture

    return held.enter_context(ModelCapture(episode, setup.capture, run.recording, listener))
