"""Where a benchmark's environment is, and whether it can be used."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Literal

import mcp_bench.servers
from mcp_bench.servers.environments.pins import Pins
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.home import home

State = Literal["absent", "unfinished", "outdated", "ready"]
LABEL = "installed.json"
"""Written when everything is installed. Without it, the environment is not used."""


def folder(benchmark: str) -> Path:
    """Return the environment's folder, below the home: agents cannot read it."""
    return home() / "environments" / benchmark


def python_in(place: Path) -> Path:
    return place / "bin" / "python"


def state(benchmark: str, pins: Pins) -> State:
    """Return whether the environment of a benchmark exists and fits its pinned list."""
    place = folder(benchmark)
    if not python_in(place).exists():
        return "absent"
    found = label(place)
    if not found:
        return "unfinished"
    return "ready" if found.get("pins") == pins.digest else "outdated"


def label(place: Path) -> dict[str, Any]:
    """Return what was installed, empty if nothing was or its label cannot be read."""
    try:
        found = json.loads((place / LABEL).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def link_ours(place: Path) -> None:
    """Let an environment import the part of mcp-bench that workers need: of the installation that asks.

    Raises:
        BenchError: the environment is broken, or cannot be written.
    """
    ours = Path(mcp_bench.servers.__file__).parent
    try:
        link = next(place.glob("lib/python3*/site-packages")) / "mcp_bench" / "servers"
        if link.is_symlink() and link.readlink() == ours:
            return
        link.parent.mkdir(exist_ok=True)
        new = link.with_name(f".servers.{os.getpid()}")
        new.symlink_to(ours)
        new.replace(link)  # another process may be starting a worker
    except (OSError, StopIteration) as error:
        raise BenchError(
            f"the environment in {place} cannot import mcp-bench: {error or 'it has no site-packages'}. "
            "Remove it with `mcp-bench benchmarks remove`, and install it again"
        ) from error
