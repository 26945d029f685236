"""Paths: where recordings are stored in the home, how long a socket's can be, and those that a user names."""

from __future__ import annotations

import os
from pathlib import Path

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.home import expanded, home

SOCKET_PATH_BYTES = 107
"""The longest path of a Unix socket (`sun_path` without the closing zero, see unix(7))."""


def runs_dir() -> Path:
    """Return the folder that holds one folder per run."""
    return home() / "runs"


def cache_dir() -> Path:
    """Return the folder for files that can be regenerated: `$MCP_BENCH_CACHE`, or `cache` in the home."""
    configured = os.environ.get("MCP_BENCH_CACHE")
    return expanded(configured).absolute() if configured else home() / "cache"


def is_there(path: Path) -> bool:
    """Return whether there is something at a path that a user named.

    Raises:
        WrongUseError: that cannot be seen.
    """
    try:
        return path.exists()
    except OSError as error:
        raise WrongUseError(f"cannot look at {path}: {error.strerror}") from error
