"""The contract between the referee and one agent: find it, configure it, launch it, read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from mcp_bench.recorder.trajectory import Message, Usage

Tools = Literal["mcp-only", "all"]
Home = Literal["sealed", "native"]
"""Whose HOME, configuration and environment an agent works with: private ones, or the user's own."""


@dataclass(frozen=True)
class Capabilities:
    """What an agent can do. The referee and `mcp-bench agents` read it."""

    builtin_tools_off: bool = True
    """Its own tools can be switched off (`--tools mcp-only` holds fully)."""
    reports_usage: bool = False
    reports_cost: bool = False
    reports_reasoning: bool = False
    needs_model: bool = False
    """`--model` must be given."""
    plays_reference: bool = False
    """Trusted by the referee: it is handed the task's reference calls on stdin."""
    http: bool = False
    """Connects to an MCP server by URL (streamable HTTP), too."""
    native: bool = False
    """Can be given a server for one launch beside the user's own configuration (`--home native`)."""


@dataclass(frozen=True)
class Installation:
    """An agent found on this machine. `version` is stored with every episode."""

    executable: str
    version: str


@dataclass(frozen=True)
class McpServer:
    """The entry that goes into the agent's configuration. It holds no secret that outlives its episode."""

    name: str
    command: tuple[str, ...]
    """What to start, which speaks MCP on stdio. Empty where there is a URL instead."""
    tools: tuple[str, ...]
    """Names of the tools, for agents that want an allow-list. Empty where they are not known beforehand (a
    server that is no benchmark's): then every tool of this server is to be allowed."""
    url: str | None = None
    """Where the server is on streamable HTTP; only for agents whose capabilities say `http`."""


@dataclass(frozen=True)
class LaunchRequest:
    """One episode, as far as an agent may know it."""

    prompt: str
    home: Path
    """Private HOME: exists, is empty, and is gone after the episode. With a `native` launch HOME is the
    user's, and this is only a place for files."""
    workdir: Path
    """Working directory: exists and is empty, and is gone after the episode."""
    server: McpServer
    installation: Installation
    model: str | None = None
    base_url: str | None = None
    """Model endpoint to use instead of the agent's default one."""
    tools: Tools = "mcp-only"
    options: Mapping[str, str] = field(default_factory=dict)
    """The `--agent-option KEY=VALUE` pairs of the command line."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """The user's environment. A plugin passes on what its agent needs to log in, nothing else; with a
    `native` launch the referee passes on all of it."""
    reference: bytes | None = None
    """Reference calls as JSON (`Reference` of mcp_bench.servers.contracts), only for an agent that
    `plays_reference`."""
    seed: int = 0
    repeat: int = 0
    """Which attempt at the task it is, for agents that draw what they do; seed and task being the same."""
    ready: Path | None = None
    """A file that is there as soon as the agent has been given the tools: a prompt that comes after its
    start can be held until then. None where nobody makes it."""
    native: bool = False
    """The agent is to work with the user's HOME, configuration and environment, none of which is changed;
    asked for only where its capabilities say `native`."""
    isolated: bool = False
    """The agent is kept in a sandbox, within which one of its own could not be made."""


@dataclass(frozen=True)
class LentLogin:
    """A login of the user's that is a file. The agent works on the original; nobody opens or copies it."""

    paths: tuple[Path, ...]
    """What the agent has to be able to read and write: the file, and the folder where the agent puts a new
    one in its place."""
    alone: str = ""
    """Why only one episode at a time may use it; empty where any number may."""


@dataclass(frozen=True)
class WarmStart:
    """Python modules that take long to import. A launch may then be a fork of a process that has them."""

    folder: Path
    """Where they are imported from. It is there as long as this process."""
    modules: tuple[str, ...]
    """`main()` of the first one is what `argv` comes to. None of them may start a thread on import."""
    arguments: tuple[str, ...] = ()
    """What it finds in `sys.argv` after its own name."""


@dataclass(frozen=True)
class Launch:
    """A process to start. The referee adds PATH, HOME, TMPDIR and the locale to `env`, or, where it is
    native, the user's whole environment."""

    argv: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    stdin: bytes = b""
    login: LentLogin | None = None
    warm_start: WarmStart | None = None
    """For an agent that is Python of ours: the same as `argv`, started faster where that can be done."""


@dataclass(frozen=True)
class AgentOutput:
    """What an agent left behind when it was gone."""

    stdout: Path
    stderr: Path
    home: Path
    workdir: Path
    exit_code: int | None
    environ: Mapping[str, str] = field(default_factory=dict)
    """What it was started with."""

    @property
    def native(self) -> bool:
        """Whether it had the user's HOME: what went wrong may be about other servers of theirs."""
        return self.environ.get("HOME", str(self.home)) != str(self.home)

    def folder(self, below_home: str, variable: str = "") -> Path:
        """Return where the agent keeps its files: what a variable of its own says, else a folder in HOME."""
        told = self.environ.get(variable)
        return Path(told) if told else Path(self.environ.get("HOME") or self.home, below_home)


class Fault(BaseModel):
    """Why an episode says nothing about the agent: the harness or the model endpoint failed."""

    model_config = ConfigDict(extra="forbid")

    kind: Literal["endpoint_error", "login_missing", "approval_needed", "server_not_connected", "bad_option"]
    detail: str


class Transcript(BaseModel):
    """The agent's own account of an episode. Tool names are bare, as the world calls them.

    The recording, not this, says which calls were made; see mcp_bench.recorder.conversations.load.
    """

    model_config = ConfigDict(extra="forbid")

    messages: list[Message] = Field(default_factory=list)
    """Without the prompt: starts with what the agent said first."""
    answer: str | None = None
    """Text of the last message, where that is the agent's and asks for no tool; one that was cut off in
    the middle of its work gave no answer."""
    usage: Usage | None = None
    model: str | None = None
    fault: Fault | None = None


class Agent(Protocol):
    """One agent. Entry points of the group `mcp_bench.agents` name a class without arguments.

    It may tell, as its attribute `needs` (mcp_bench.plugins.needs), what `mcp-bench doctor` is to check.
    """

    name: str
    summary: str
    """One line for listings."""
    capabilities: Capabilities
    options: Mapping[str, str]
    """Names and meanings of the `--agent-option` keys it understands."""

    def find(self, environ: Mapping[str, str]) -> Installation:
        """Look for the agent on this machine.

        Raises:
            MissingDependencyError: it is not installed; the text says how to install it.
        """
        ...

    def prepare(self, request: LaunchRequest) -> Launch:
        """Write the agent's configuration into its private HOME and build its command.

        For a `native` launch, write nothing but in `request.home` and `request.workdir`.
        """
        ...

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        """Read the event stream and the files the agent left. Never raises on odd content."""
        ...
