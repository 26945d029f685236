"""The contract between the referee and one agent: find it, configure it, launch it, read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from mcp_bench.plugins.agent_folder import AgentFolder, hold
from mcp_bench.recorder.trajectory import Message, Usage

Tools = Literal["mcp-only", "all"]
Home = Literal["sealed", "native"]
"""Whose HOME, configuration and environment an agent works with: private ones, or the user's own."""


@dataclass(frozen=True)
class Capabilities:
    """What an agent can do, for the referee and `mcp-bench agents`."""

    builtin_tools_off: bool = True
    """Its own tools can be switched off (`--tools mcp-only` holds fully)."""
    reports_usage: bool = False
    reports_cost: bool = False
    reports_reasoning: bool = False
    needs_model: bool = False
    """It has no default model: `--model` is required."""
    plays_reference: bool = False
    """Trusted by the referee: it gets the task's reference calls on stdin."""
    http: bool = False
    """It can also connect to an MCP server by URL (streamable HTTP)."""
    system: bool = False
    """It has a place for `LaunchRequest.system`. The others find that text at the head of their prompt."""
    native: bool = False
    """It can get a server for one launch in addition to the user's own configuration (`--home native`)."""
    inside: bool = False
    """It can be started in the sandbox of a task: it needs its program, its private home, its model endpoint,
    and nothing else of the machine."""
    in_process: bool = False
    """It can be a part of the referee's process: the first module of its launch's `warm_start` has a `serve`
    like that of `mcp_bench.clients.chat.__main__`. Only for agents of ours without tools of their own."""


@dataclass(frozen=True)
class Installation:
    """An agent on this machine. `version` is stored with every episode."""

    executable: str
    version: str


@dataclass(frozen=True)
class McpServer:
    """The entry for the agent's configuration. It has no secret that outlives the episode."""

    name: str
    command: tuple[str, ...]
    """The command of a server on stdio. Empty if there is a URL instead."""
    tools: tuple[str, ...]
    """Names of the tools, for agents that need an allow-list. Empty if unknown (third-party servers):
    then the agent allows every tool of this server."""
    url: str | None = None
    """The server's address on streamable HTTP; only for agents with the capability `http`."""
    arguments: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Names of the arguments of each tool, if known: they show a tool of the server apart from one of the
    agent's own."""


@dataclass(frozen=True)
class LaunchRequest:
    """The part of an episode that its agent gets to know."""

    prompt: str
    home: Path
    """Private HOME: exists, is empty, and is deleted after the episode. With a `native` launch HOME is the
    user's, and this is only a folder for files."""
    workdir: Path
    """Working directory: exists, is empty, and is deleted after the episode. For an agent that is started in
    the sandbox of a task, it is a path in there: write nothing below it."""
    server: McpServer
    installation: Installation
    system: str = ""
    """Instructions for the system prompt, or for what the agent has in its place: AGENTS.md, ... Only for
    agents with the capability `system`."""
    model: str | None = None
    base_url: str | None = None
    """The model endpoint to use instead of the agent's default."""
    tools: Tools = "mcp-only"
    options: Mapping[str, str] = field(default_factory=dict)
    """The `--agent-option KEY=VALUE` pairs of the command line."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's environment. A plugin passes on the variables that log its agent in, and nothing else. With
    a `native` launch the referee passes on all of it."""
    reference: bytes | None = None
    """Reference calls as JSON (`Reference` of mcp_bench.servers.contracts), only for an agent that
    `plays_reference`."""
    seed: int = 0
    repeat: int = 0
    """The number of the attempt at this task with this seed, for agents that act at random."""
    ready: Path | None = None
    """A file that appears as soon as the agent has listed the tools. A client that sends the prompt after the
    start can wait for it. None if there is no such file."""
    native: bool = False
    """Work with the user's HOME, configuration and environment, and change none of them. Only for agents with
    the capability `native`."""
    isolated: bool = False
    """The agent runs in a sandbox, inside which it cannot create its own."""
    resumable: bool = False
    """The user may speak again: keep the session, so that `resume` can continue it."""


@dataclass(frozen=True)
class LentLogin:
    """A user's login in a file. The agent works on the original; mcp-bench neither opens nor copies it."""

    paths: tuple[Path, ...]
    """The paths that the agent must be able to read and write: the file, and the folder in which the agent
    replaces it."""
    alone: str = ""
    """Why only one episode at a time can use it. Empty if any number can."""


@dataclass(frozen=True)
class WarmStart:
    """Slow Python imports of an agent. A launch can then be a fork of a process that has done them."""

    folder: Path
    """The folder to import from. It exists as long as this process."""
    modules: tuple[str, ...]
    """`main()` of the first one does what `argv` does. None of them may start a thread on import."""
    arguments: tuple[str, ...] = ()
    """`sys.argv` without the program's name."""


@dataclass(frozen=True)
class Launch:
    """A process to start.

    The referee adds PATH, HOME, TMPDIR and the locale to `env`; for a native launch, the user's environment.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    login: LentLogin | None = None
    warm_start: WarmStart | None = None
    """A faster equivalent of `argv`, for our own Python clients."""


@dataclass(frozen=True)
class AgentOutput:
    """The files of an agent after its end."""

    stdout: Path
    stderr: Path
    home: Path
    workdir: Path
    exit_code: int | None
    environ: Mapping[str, str] = field(default_factory=dict)
    """The environment that it was started with."""
    held: AgentFolder | None = None
    """`home`, held open since before the agent started."""

    @property
    def native(self) -> bool:
        """Whether it had the user's HOME: an error can then be about another of the user's servers."""
        return self.environ.get("HOME", str(self.home)) != str(self.home)

    def files(self, below_home: str = "", variable: str = "") -> AgentFolder:
        """Return the folder of the agent's files: the value of `variable`, else a folder in HOME.

        Read them through this folder only. The agent can have replaced any part of their paths by links,
        and any of them by a pipe, a device or another file; links are followed in the user's own HOME only.
        """
        moved = self.environ.get(variable)
        if self.native:
            return hold(Path(moved) if moved else Path(self.environ["HOME"], below_home), trusted=True)
        if moved and not Path(moved).is_relative_to(self.home):
            return hold(moved)
        return self.private.below(Path(moved).relative_to(self.home) if moved else below_home)

    @property
    def private(self) -> AgentFolder:
        """The private home, in which a plugin writes even if the agent has the user's HOME."""
        return self.held or hold(self.home)


class Fault(BaseModel):
    """Why an episode says nothing about the agent: the referee or the model endpoint failed."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["endpoint_error", "login_missing", "approval_needed", "server_not_connected", "bad_option"]
    detail: str
    ours: bool = False
    """Whether our own client caused it, such as by refusing a call to the server. It is then never held
    against the agent."""


class Transcript(BaseModel):
    """The agent's own account of an episode. Tool names are bare, as the world calls them.

    The recording, not this, shows which calls were made; see mcp_bench.recorder.conversations.load.
    """

    model_config = ConfigDict(extra="forbid")

    messages: list[Message] = Field(default_factory=list)
    """Without the prompt: the first message is the agent's."""
    answer: str | None = None
    """Text of the last message, if it is the agent's and calls no tool. An agent that was stopped in the
    middle of its work gave no answer."""
    usage: Usage | None = None
    model: str | None = None
    fault: Fault | None = None


class Agent(Protocol):
    """One agent. Entry points of the group `mcp_bench.agents` name a class without arguments.

    It can have an attribute `needs` (`mcp_bench.plugins.needs.needs_of`) for `mcp-bench doctor` to check. A
    command-line program can derive from `mcp_bench.plugins.cli_agent.CliAgent`, which has the three methods.
    """

    name: str
    summary: str
    """One line for listings."""
    capabilities: Capabilities
    options: Mapping[str, str]
    """Names and meanings of the `--agent-option` keys that it accepts."""

    def find(self, environ: Mapping[str, str]) -> Installation:
        """Find the agent on this machine.

        Raises:
            MissingDependencyError: it is not installed; the message says how to install it.
        """
        ...

    def prepare(self, request: LaunchRequest) -> Launch:
        """Write the agent's configuration into its private HOME and build its command.

        For a `native` launch, write only in `request.home` and `request.workdir`.
        """
        ...

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        """Read the event stream and the files that the agent left. Never raises on odd content."""
        ...


@runtime_checkable
class Resumes(Protocol):
    """Optional: an agent that continues its session when the user speaks again.

    It is launched once for each turn. The others get the tool `reply_to_user`.
    """

    def resume(self, launch: Launch, said: str, output: AgentOutput) -> Launch | None:
        """Return the launch for the user's next message; None: the session is lost.

        Write nothing: the agent can have replaced any file of its home by a link.

        Args:
            launch: the first launch, of a request that is `resumable`.
            output: what all launches have left so far, in the same files. `read` gets it all.
        """
        ...


@runtime_checkable
class CoversMany(Protocol):
    """Optional: a plugin for many agents, one of which its options name."""

    def for_options(self, options: Mapping[str, str]) -> Agent:
        """Return the plugin of that agent.

        Raises:
            WrongUseError: the options name none.
        """
        ...
