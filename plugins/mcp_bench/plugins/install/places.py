"""Where agents keep their MCP servers, and how each writes one down."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcp_bench.servers.errors import UnknownNameError, WrongUseError

Scope = Literal["user", "project"]
Entry = dict[str, Any]


def plain(command: Sequence[str]) -> Entry:
    return {"command": command[0], "args": list(command[1:])}


def typed(command: Sequence[str]) -> Entry:
    return {"type": "stdio", **plain(command)}


def local(command: Sequence[str]) -> Entry:
    return {"type": "local", "command": list(command), "enabled": True}


@dataclass(frozen=True)
class Settings:
    """The configuration files of one agent."""

    user: str
    """Below the user's home."""
    project: str | None
    """Below the project's folder; None where the agent reads none there."""
    table: str = "mcpServers"
    entry: Callable[[Sequence[str]], Entry] = plain
    moved_by: str | None = None
    """An environment variable that names the folder in place of the user file's own."""

    def path(self, scope: Scope, environ: Mapping[str, str], project: Path) -> Path | None:
        if scope == "project":
            return None if self.project is None else project / self.project
        home = Path(environ.get("HOME") or Path.home())
        if self.moved_by and environ.get(self.moved_by):
            return Path(environ[self.moved_by]) / Path(self.user).name
        return home / self.user


SETTINGS: dict[str, Settings] = {
    "claude-code": Settings(".claude.json", ".mcp.json", entry=typed, moved_by="CLAUDE_CONFIG_DIR"),
    "codex": Settings(".codex/config.toml", ".codex/config.toml", "mcp_servers", moved_by="CODEX_HOME"),
    "cursor": Settings(".cursor/mcp.json", ".cursor/mcp.json"),
    "devin": Settings(".config/devin/config.json", ".devin/config.json"),
    "gemini": Settings(".gemini/settings.json", ".gemini/settings.json"),
    "opencode": Settings(".config/opencode/opencode.json", "opencode.json", "mcp", local),
    "qwen-code": Settings(".qwen/settings.json", ".qwen/settings.json"),
    "vscode": Settings(".config/Code/User/mcp.json", ".vscode/mcp.json", "servers", typed),
}


def settings_file(
    agent: str, scope: Scope, environ: Mapping[str, str], project: Path
) -> tuple[Settings, Path]:
    """Return how an agent writes servers down, and in which file.

    Raises:
        UnknownNameError: we do not know the agent's configuration.
        WrongUseError: the agent has no configuration in a project.
    """
    if agent not in SETTINGS:
        raise UnknownNameError("agent to install for", agent, SETTINGS)
    settings = SETTINGS[agent]
    path = settings.path(scope, environ, project)
    if path is None:
        raise WrongUseError(f"{agent} reads no servers from a project: leave out --scope project")
    return settings, path
