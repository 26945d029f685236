"""Benchmarks, agents, formats, importers, commands and other parts, found through entry points.

The built-in ones are registered the same way, so a third party adds one with a pip package.
Kept free of heavy imports: the root command goes through here on every start.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Literal

from mcp_bench.servers.errors import MissingDependencyError, UnknownNameError

Kind = Literal[
    "benchmark", "agent", "format", "importer", "command", "observer", "labeller", "report_section"
]


@cache
def registered(kind: Kind) -> dict[str, EntryPoint]:
    """Return the entry points of one kind by name, in alphabetical order."""
    found = entry_points(group=f"mcp_bench.{kind}s")
    return {point.name: point for point in sorted(found, key=lambda point: point.name)}


def load(kind: Kind, name: str) -> Any:
    """Import what `name` stands for.

    Raises:
        UnknownNameError: nothing of that name is registered; the text lists near matches.
        MissingDependencyError: its module needs a package that is not installed.
    """
    points = registered(kind)
    if name not in points:
        raise UnknownNameError(kind, name, points)
    try:
        return points[name].load()
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{kind} {name!r} needs the Python package {error.name!r}, which is not installed"
        ) from error
