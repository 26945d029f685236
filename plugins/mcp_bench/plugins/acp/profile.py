"""What there is to know of one agent that speaks ACP, besides its command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.plugins.acp.session import Session
from mcp_bench.plugins.contracts import AgentOutput, Capabilities, LaunchRequest, LentLogin, McpServer
from mcp_bench.plugins.needs import Needs

NEVER = r"(?!)"
REPORTS = Capabilities(reports_usage=True, reports_reasoning=True, http=True)


@dataclass(frozen=True)
class Opening:
    """How an agent is started, and its session opened."""

    env: Mapping[str, str] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()
    """Go after the words of the command."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The `_meta` of `session/new`."""
    server_by_session: bool = True
    """Else it is in the agent's configuration."""
    model_by_session: bool = False
    """Else it is in the agent's configuration."""
    choices: Mapping[str, str] = field(default_factory=dict)
    """Options of the session to set, by id."""
    login: str | None = None
    """Id of the method to log in with before there is a session."""
    settle: float = 0.2
    """Seconds that the agent is given after its server has listed the tools."""
    user_login: LentLogin | None = None
    """The login file that it works with."""


def as_told(session: Session, output: AgentOutput, server: McpServer) -> None:
    """Leave a session as the protocol told it."""


@dataclass(frozen=True)
class Profile:
    """One agent. `name` is the program's."""

    name: str
    open: Callable[[LaunchRequest], Opening]
    """May raise a BenchError."""
    install: str = "what its makers say"
    """The command that installs it."""
    read: Callable[[Session, AgentOutput, McpServer], None] = as_told
    """Adds to a session what the agent tells elsewhere than in the protocol. Never raises on odd content."""
    failure: str = NEVER
    """Pattern of what it says, for an answer or in its standard error, when its model endpoint failed."""
    capabilities: Capabilities = REPORTS
    needs: Needs | None = None
    """Its login and its model endpoint, where they are known."""
