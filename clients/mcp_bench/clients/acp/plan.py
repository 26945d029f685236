"""The client's plan, a JSON file: which agent to start, and how to open its session."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from mcp_bench.clients.events import ClientError


@dataclass(frozen=True)
class Plan:
    """One agent and one session. The file has the same names."""

    command: list[str]
    """The agent's command; it inherits the environment and the working directory."""
    mcpServers: list[dict[str, Any]] = field(default_factory=list)  # noqa: N815  (the protocol's name)
    """In the form of `session/new`."""
    meta: dict[str, Any] = field(default_factory=dict)
    """The `_meta` of `session/new`: the agent's own extensions."""
    login: str | None = None
    """Id of the login method, if the agent requires one before a session."""
    model: str | None = None
    """One of the models that the session offers."""
    mode: str | None = None
    """One of the modes that the session offers."""
    choices: dict[str, str] = field(default_factory=dict)
    """Other options to set, by id, if the session has them."""
    server: str = ""
    """Name of the server whose tools to allow when the agent asks."""
    allow: dict[str, list[str] | None] | None = None
    """The arguments of each of its tools, or null where they are unknown; {} if the tools are unknown, too.
    Null allows the tools of the agent as well."""
    ready: str | None = None
    """The first prompt waits until this file exists."""
    wait: float = 120.0
    """Timeout in seconds for the agent to open a session, and for `ready`."""
    settle: float = 0.0
    """Seconds between that and the first prompt, for the agent to process its servers' answers."""


KINDS: dict[str, type | tuple[type, ...]] = {
    "command": list,
    "mcpServers": list,
    "meta": dict,
    "choices": dict,
    "allow": (dict, type(None)),
    "wait": (int, float),
    "settle": (int, float),
}
"""Types of the members; all others are strings or null."""


def read_plan(path: Path) -> Plan:
    """Read a plan.

    Raises:
        ClientError: it cannot be read, or is invalid.
    """
    try:
        document = json.loads(path.read_bytes())
    except OSError as error:
        raise ClientError("usage", f"cannot read the plan {path}: {error.strerror}") from error
    except ValueError as error:
        raise ClientError("usage", f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or not document.get("command"):
        raise ClientError("usage", f"{path} should be an object with a 'command'")
    known = [member.name for member in fields(Plan)]
    for key, value in document.items():
        if key not in known:
            raise ClientError("usage", f"{path}: {key!r} is not known (these are: {', '.join(known)})")
        if not isinstance(value, KINDS.get(key, (str, type(None)))):
            raise ClientError("usage", f"{path}: {key!r} should not be of type {type(value).__name__}")
    return Plan(**document)
