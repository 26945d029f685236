"""Find benchmarks, agents, formats, importers, commands and other plugins by their entry points.

The built-in ones are registered the same way, so third parties add theirs with a pip package.
This module has no heavy imports: every start of the command line imports it.
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
    """Import the object that is registered as `name`.

    Raises:
        UnknownNameError: nothing is registered under that name; the text lists near matches.
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
