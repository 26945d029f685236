"""The profile of one agent that speaks ACP: everything that its command does not say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.plugins.acp.session import AcpSession
from mcp_bench.plugins.contracts import AgentOutput, Capabilities, LaunchRequest, LentLogin, McpServer
from mcp_bench.plugins.needs import Needs

NEVER = r"(?!)"
OPTIONS = ("effort", "max_retries")
"""Options of an agent that ACP has no field for."""
REPORTS = Capabilities(reports_usage=True, reports_reasoning=True, http=True)


@dataclass(frozen=True)
class Opening:
    """How to start an agent and open its session."""

    env: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    """Appended to the command."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The `_meta` of `session/new`."""
    server_by_session: bool = True
    """Else it is in the agent's configuration."""
    model_by_session: bool = False
    """Else it is in the agent's configuration."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """Options of the session to set, by id."""
    login: str | None = None
    """Id of the login method to use before the session."""
    settle: float = 0.2
    """Seconds to wait after the server has listed the tools."""
    user_login: LentLogin | None = None
    """The login file that it is lent."""


def keep(session: AcpSession, output: AgentOutput, server: McpServer) -> None:
    """Keep a session as the protocol reported it."""


@dataclass(frozen=True)
class Profile:
    """One agent. `name` is its program's name."""

    name: str
    open: Callable[[LaunchRequest], Opening]
    """Can raise a BenchError."""
    install: str = "the instructions of its makers"
    """The command that installs it, or where to read how."""
    read: Callable[[AcpSession, AgentOutput, McpServer], None] = keep
    """Adds to a session what the agent reports outside the protocol. Never raises on odd content."""
    failure: str = NEVER
    """Pattern of its answer, or of its standard error, when its model endpoint failed."""
    capabilities: Capabilities = REPORTS
    needs: Needs | None = None
    """Its login and its model endpoint, if known."""
    options: tuple[str, ...] = ()
    """Which of `OPTIONS` it can set."""
