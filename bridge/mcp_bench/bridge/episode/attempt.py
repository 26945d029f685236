"""What the attempts of a run share, what is known about one of them, and how its agent is launched."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import anyio

from mcp_bench.bridge.episode.in_sandbox import Door, check_login, works_inside
from mcp_bench.bridge.episode.sandbox_access import access
from mcp_bench.bridge.harness.folder import Harness
from mcp_bench.bridge.isolation.level import Confinement, Level
from mcp_bench.bridge.isolation.none import Unconfined
from mcp_bench.bridge.process.fork_server_process import ForkServer
from mcp_bench.bridge.process.limits import AgentLimits
from mcp_bench.bridge.roles.episode_host import EpisodeHost
from mcp_bench.bridge.roles.models import Roles
from mcp_bench.bridge.tap.traffic import Seen
from mcp_bench.bridge.wire.backend import SERVER_NAME
from mcp_bench.bridge.wire.episode_folder import EpisodeFolder
from mcp_bench.bridge.wire.foreign_server import ForeignServer
from mcp_bench.plugins.contracts import (
    Agent,
    Home,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Tools,
    Transcript,
)
from mcp_bench.recorder.isolation_levels import OPEN
from mcp_bench.recorder.records import Termination
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import BenchError, WrongUseError

P = ParamSpec("P")
T = TypeVar("T")

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
    sandbox: str = ""
    """Engine of its worlds' sandboxes. Empty: see `mcp_bench.bridge.sandbox.engine.choose`."""
    harness: Harness | None = None
    """What the agent gets besides its model and the world."""
    roles: Roles = field(default_factory=Roles)
    """The models that play a role in its worlds."""
    fork_server: ForkServer | None = None
    """Starts our own Python clients quickly while a run is in progress."""

    @property
    def inside(self) -> bool:
        """Whether the agent works inside the sandbox of its task."""
        return works_inside(self.benchmark, self.tools)


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
    killed_all: bool = False
    """Whether an agent inside the sandbox ended all its processes: what it then lacks is its own failure."""
    endpoint_failed: bool = False
    """Whether the capture proxy saw the model endpoint fail at the end."""
    rewards: Sequence[float | None] = ()
    """Of the calls that the world executed, in their order."""

    resumed: bool = False
    """Whether the turns of its user are in its transcript, and no calls of the agent."""

    def invalidate(self, reason: str, detail: str, *, on_its_word: bool = False) -> None:
        """Mark the attempt invalid; the first reason stands."""
        if self.invalid is None:
            self.invalid, self.detail, self.on_its_word = reason, detail, on_its_word

    def count(self) -> None:
        """Let the attempt count although its agent reports a failure: the report becomes the detail."""
        self.detail = f"{self.invalid}: {self.detail}"
        self.invalid, self.on_its_word = None, False


def blame(attempt: Attempt, host: EpisodeHost) -> bool:
    """Invalidate an attempt if a model of its world's roles failed; return whether it did."""
    if (failure := host.take_failure()) is None:
        return False
    attempt.invalidate(failure.reason, failure.detail, on_its_word=failure.agents_doing)
    return True


class PluginError(Exception):
    """An agent's plugin raised an error that is not meant for the user: a bug in the plugin."""


async def confine(
    setup: Setup,
    launch: Launch,
    folder: EpisodeFolder,
    environ: Mapping[str, str],
    held: AsyncExitStack,
    door: Door | None = None,
) -> Confinement | None:
    """Prepare the sandbox for a launch. Call it when everything in the episode's folder exists.

    Args:
        door: of the task's sandbox, if the agent works there.
    """
    if setup.level.name in OPEN:
        return None
    needs = await anyio.to_thread.run_sync(access, setup.installation, launch, folder.path, environ)
    if door is not None:
        return await anyio.to_thread.run_sync(door.confinement, needs)
    return held.enter_context(setup.level.confined(needs))


def with_tools(server: McpServer, run: RunFolder, episode: str) -> McpServer:
    """Return the server with its tool names, which a plugin needs to read a transcript."""
    if server.tools:
        return server
    names = tuple(tool.function.name for tool in run.recording.listed_tools(episode))
    return replace(server, tools=names)


def launch_request(
    setup: Setup,
    folder: EpisodeFolder,
    prompt: str,
    server: McpServer,
    reference: bytes | None,
    system: str = "",
    door: Door | None = None,
) -> LaunchRequest:
    """Return what an agent gets to know. Instructions are in its own place for them, or before its prompt."""
    has_place = setup.agent.capabilities.system
    return LaunchRequest(
        prompt=prompt if has_place or not system else f"{system}\n\n{prompt}",
        system=system if has_place else "",
        home=folder.home,
        workdir=folder.workdir if door is None else Path(door.folder),
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
        isolated=setup.level.name not in OPEN or door is not None,
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
        if setup.inside:
            check_login(launch.login)
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
