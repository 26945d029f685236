"""Find and read the files that hold a user's defaults: the user's own one and the project's.

The root command looks for them at every start, so this module imports the TOML parser only when there is one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError

VARIABLE = "MCP_BENCH_CONFIG"
NO_FILES = {VARIABLE: "none"}
"""For the environment of commands that mcp-bench starts itself: they do what they were asked to do."""
PROJECT_NAME = "mcp-bench.toml"
SHARED_NAME = "pyproject.toml"
SHARED_TABLE = b"[tool.mcp-bench"
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class SettingsFile:
    """A file with defaults."""

    path: Path
    own: bool
    """Whether it is the user's own. The others may have come with somebody's repository."""
    tables: dict[str, Any]
    """By the name of a command."""

    @property
    def kind(self) -> str:
        return "your own" if self.own else "project"


def user_path() -> Path:
    """Return where the user's own file is, or would be."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = Path(configured) if configured.startswith("/") else _home() / ".config"
    return base / "mcp-bench" / "config.toml"


def settings_files() -> list[SettingsFile]:
    """Return the files in force, the strongest one last.

    `$MCP_BENCH_CONFIG` names a file to read instead, or `none`.

    Raises:
        WrongUseError: a file cannot be read, or is not TOML.
    """
    named = os.environ.get(VARIABLE, "")
    if named == "none":
        return []
    if named:
        return [_read(_expanded(named), own=True)]
    own = user_path()
    found = [_read(own, own=True)] if _there(own.is_file) else []
    project = _project_file()
    return found if project is None else [*found, project]


def _project_file() -> SettingsFile | None:
    """Return the nearest file, at or above the working directory."""
    for folder in _searched():
        if _there((file := folder / PROJECT_NAME).is_file):
            return _read(file, own=False)
        shared = folder / SHARED_NAME
        if _there(shared.is_file) and (found := _read_shared(shared)) is not None:
            return found
    return None


def _searched() -> list[Path]:
    """Return the folders to look into: up to the repository's root or the home, else only the working one.

    A file in a folder like /tmp, which everybody can write to, must not reach what is below it.
    """
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was deleted
        return []
    home = _home()
    folders = [here, *here.parents[:-1]]  # / is the home of users without one
    for number, folder in enumerate(folders, start=1):
        if folder == home or _there((folder / ".git").exists):
            return folders[:number]
    return [here]


def _home() -> Path:
    try:
        return Path("~").expanduser()
    except RuntimeError:  # a user without HOME and without an entry in the table of users
        return Path("/")


def _expanded(named: str) -> Path:
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        raise WrongUseError(f"${VARIABLE}={named}: {error}") from error


def _there(test: Callable[[], bool]) -> bool:
    """Return a path's `is_file` or `exists`, and false below a folder that is closed to this user."""
    try:
        return test()
    except OSError:
        return False


def _read(path: Path, *, own: bool) -> SettingsFile:
    return SettingsFile(path, own, _parsed(path, _bytes(path)))


def _read_shared(path: Path) -> SettingsFile | None:
    """Read the table `[tool.mcp-bench]` of a pyproject.toml, if it has one."""
    try:
        data = _bytes(path)
    except WrongUseError:
        return None  # it need not be about mcp-bench
    if SHARED_TABLE not in data:
        return None
    tools = _parsed(path, data).get("tool")
    tables = tools.get("mcp-bench") if isinstance(tools, dict) else None
    if tables is None:
        return None  # the name stood in a comment, or began another one
    if not isinstance(tables, dict):
        raise WrongUseError(f"{path}: tool.mcp-bench should be a table, as in [tool.mcp-bench.record]")
    return SettingsFile(path, False, tables)


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise WrongUseError(f"{path}: {error.strerror}") from error
    if len(data) > MAX_BYTES:
        raise WrongUseError(f"{path} is larger than {MAX_BYTES >> 20} MiB: it is not a file with defaults")
    return data


def _parsed(path: Path, data: bytes) -> dict[str, Any]:
    import tomllib

    try:
        return tomllib.loads(data.decode())
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else error
        raise WrongUseError(f"{path} is not valid TOML: {reason}") from error
