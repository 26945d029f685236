"""Where recordings are stored: never below an agent's working directory."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_chosen: ContextVar[Path | None] = ContextVar("home", default=None)


def home() -> Path:
    """Return the home of `use_home`, else `$MCP_BENCH_HOME`, else the user's data directory of mcp-bench."""
    if (chosen := _chosen.get()) is not None:
        return chosen
    configured = os.environ.get("MCP_BENCH_HOME")
    if configured:
        return Path(configured).expanduser().absolute()
    from platformdirs import user_data_path

    return user_data_path("mcp-bench", appauthor=False)


@contextmanager
def use_home(path: Path) -> Iterator[None]:
    """Make `path` the home of this thread or task until the context ends. Processes do not inherit it."""
    token = _chosen.set(path)
    try:
        yield
    finally:
        _chosen.reset(token)


def runs_dir() -> Path:
    """Return the folder that holds one folder per run."""
    return home() / "runs"


def cache_dir() -> Path:
    """Return the folder for files that can be regenerated: `$MCP_BENCH_CACHE`, or `cache` in the home."""
    configured = os.environ.get("MCP_BENCH_CACHE")
    return Path(configured).expanduser().absolute() if configured else home() / "cache"
