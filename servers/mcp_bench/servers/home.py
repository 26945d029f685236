"""The home of mcp-bench: recordings, keys and secrets. It is never below an agent's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

VARIABLE = "MCP_BENCH_HOME"
_chosen: ContextVar[Path | None] = ContextVar("home", default=None)


def home() -> Path:
    """Return the home of `use_home`, else `$MCP_BENCH_HOME`, else the user's data directory of mcp-bench."""
    return home_in(os.environ) if (chosen := _chosen.get()) is None else chosen


def home_in(environ: Mapping[str, str]) -> Path:
    """Return the home of processes with this environment."""
    if configured := environ.get(VARIABLE):
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
