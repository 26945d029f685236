"""The home of mcp-bench: recordings, keys and secrets. It is never below an agent's folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

from mcp_bench.servers.errors import WrongUseError

VARIABLE = "MCP_BENCH_HOME"
_chosen: ContextVar[Path | None] = ContextVar("home", default=None)


def home() -> Path:
    """Return the home of `use_home`, else `$MCP_BENCH_HOME`, else the user's data directory of mcp-bench."""
    return home_in(os.environ) if (chosen := _chosen.get()) is None else chosen


def home_in(environ: Mapping[str, str]) -> Path:
    """Return the home of processes with this environment."""
    if configured := environ.get(VARIABLE):
        return expanded(configured).absolute()
    from platformdirs import user_data_path

    return user_data_path("mcp-bench", appauthor=False)


def expanded(path: str | Path) -> Path:
    """Return a path that a user wrote, with a home directory in place of `~` and `~NAME`.

    Raises:
        WrongUseError: there is none.
    """
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise WrongUseError(f"{path}: {Path(path).parts[0]} has no home directory on this machine") from error


@contextmanager
def use_home(path: Path) -> Iterator[None]:
    """Make `path` the home of this thread or task until the context ends. Processes do not inherit it."""
    token = _chosen.set(path)
    try:
        yield
    finally:
        _chosen.reset(token)
