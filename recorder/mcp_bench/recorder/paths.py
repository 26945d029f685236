"""Where recordings are stored: never below an agent's working directory."""

from __future__ import annotations

import os
from pathlib import Path


def home() -> Path:
    """Return `$MCP_BENCH_HOME`, or the platform's user data directory of mcp-bench."""
    configured = os.environ.get("MCP_BENCH_HOME")
    if configured:
        return Path(configured).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("mcp-bench", appauthor=False)


def runs_dir() -> Path:
    """Return the folder that holds one folder per run."""
    return home() / "runs"


def cache_dir() -> Path:
    """Return the folder for files that can be regenerated: `$MCP_BENCH_CACHE`, or `cache` in the home."""
    configured = os.environ.get("MCP_BENCH_CACHE")
    return Path(configured).expanduser().absolute() if configured else home() / "cache"
