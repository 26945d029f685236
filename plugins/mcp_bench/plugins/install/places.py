"""The configuration files in which agents keep their MCP servers, and the form of an entry in each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from mcp_bench.servers.errors import UnknownNameError, WrongUseError

Scope = Literal["user", "project"]
Entry = dict[str, Any]


START_SECONDS = 60
"""The first start also starts a referee, which takes longer than an agent's default timeout."""


def plain(command: Sequence[str], env: Mapping[str, str]) -> Entry:
    entry: Entry = {"command": command[0], "args": list(command[1:])}
    return {**entry, "env": dict(env)} if env else entry


def typed(command: Sequence[str], env: Mapping[str, str]) -> Entry:
    return {"type": "stdio", **plain(command, env)}


def patient(command: Sequence[str], env: Mapping[str, str]) -> Entry:
    return {**plain(command, env), "startup_timeout_sec": START_SECONDS}


def discovered(command: Sequence[str], env: Mapping[str, str]) -> Entry:
    return {**plain(command, env), "discoveryTimeoutMs": START_SECONDS * 1000}


def local(command: Sequence[str], env: Mapping[str, str]) -> Entry:
    entry: Entry = {"type": "local", "command": list(command), "enabled": True}
    entry["timeout"] = START_SECONDS * 1000
    return {**entry, "environment": dict(env)} if env else entry


@dataclass(frozen=True)
class Settings:
    """The configuration files of one agent."""

    user: str
    """Relative to the user's home."""
    project: str | None
    """Relative to the project's folder; None if the agent reads none there."""
    table: str = "mcpServers"
    entry: Callable[[Sequence[str], Mapping[str, str]], Entry] = plain
    """Builds an entry from the command and the variables that it needs."""
    moved: tuple[str, str] | None = None
    """An environment variable that names another folder, and the user's file in that folder."""

    def path(self, scope: Scope, environ: Mapping[str, str], project: Path) -> Path | None:
        if scope == "project":
            return None if self.project is None else project / self.project
        if self.moved:
            variable, file = self.moved
            if environ.get(variable):
                return Path(environ[variable]) / file
        return Path(environ.get("HOME") or Path.home()) / self.user


SETTINGS: dict[str, Settings] = {
    "claude-code": Settings(
        ".claude.json", ".mcp.json", entry=typed, moved=("CLAUDE_CONFIG_DIR", ".claude.json")
    ),
    "codex": Settings(
        ".codex/config.toml", ".codex/config.toml", "mcp_servers", patient, ("CODEX_HOME", "config.toml")
    ),
    "cursor": Settings(".cursor/mcp.json", ".cursor/mcp.json"),
    "devin": Settings(".config/devin/config.json", ".devin/config.json"),
    "gemini": Settings(
        ".gemini/settings.json",
        ".gemini/settings.json",
        moved=("GEMINI_CLI_HOME", ".gemini/settings.json"),
    ),
    "opencode": Settings(
        ".config/opencode/opencode.json",
        "opencode.json",
        "mcp",
        local,
        ("XDG_CONFIG_HOME", "opencode/opencode.json"),
    ),
    "qwen-code": Settings(
        ".qwen/settings.json", ".qwen/settings.json", entry=discovered, moved=("QWEN_HOME", "settings.json")
    ),
    "vscode": Settings(
        ".config/Code/User/mcp.json",
        ".vscode/mcp.json",
        "servers",
        typed,
        ("XDG_CONFIG_HOME", "Code/User/mcp.json"),
    ),
}


def settings_file(
    agent: str, scope: Scope, environ: Mapping[str, str], project: Path
) -> tuple[Settings, Path]:
    """Return the form of an agent's entries, and their file.

    Raises:
        UnknownNameError: the agent's configuration is unknown.
        WrongUseError: the agent has no configuration for a project.
    """
    if agent not in SETTINGS:
        raise UnknownNameError("agent to install for", agent, SETTINGS)
    settings = SETTINGS[agent]
    path = settings.path(scope, environ, project)
    if path is None:
        raise WrongUseError(f"{agent} reads no servers from a project: leave out --scope project")
    return settings, path
