"""Find benchmarks, agents, formats, importers, commands and other plugins by their entry points.

The built-in ones are registered the same way, so third parties add theirs with a pip package.
This module has no heavy imports: every start of the command line imports it.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from mcp_bench.servers.entry_points import EntryPoint, entry_points
from mcp_bench.servers.errors import BenchError, MissingDependencyError, UnknownNameError, WrongUseError

Kind = Literal[
    "benchmark", "agent", "format", "importer", "command", "observer", "labeller", "report_section"
]

LISTS = {"benchmark": "mcp-bench benchmarks", "agent": "mcp-bench agents"}
"""The command that lists all of a kind."""

CONTRACT = (
    "name",
    "version",
    "summary",
    "replay",
    "replay_ignores",
    "tasks",
    "task",
    "open",
    "reference",
    "tools",
    "aclose",
)
"""What every `Benchmark` has. Importing that class takes long."""


@cache
def registered(kind: Kind) -> dict[str, EntryPoint]:
    """Return the entry points of one kind by name, in alphabetical order."""
    found = entry_points(f"mcp_bench.{kind}s")
    return {point.name: point for point in sorted(found, key=lambda point: point.name)}


def load(kind: Kind, name: str) -> Any:
    """Import the object that is registered as `name`.

    A benchmark that works on a folder of the user's is `NAME:FOLDER`; runs store that name.

    Raises:
        WrongUseError: the benchmark works on no folder, or the folder does not fit.
        UnknownNameError: nothing is registered under that name; the text lists near matches.
        MissingDependencyError: its module needs a package that is not installed.
        BenchError: its module cannot be imported for another reason, or it is no benchmark of that name.
    """
    points = registered(kind)
    if kind == "benchmark" and name not in points and ":" in name:
        name, _, path = name.partition(":")
        return at_path(load(kind, name), name, path)
    if name not in points:
        raise UnknownNameError(kind, name, points, see=LISTS.get(kind))
    named = f"{kind} {name!r} ({points[name].value})"
    try:
        found = points[name].load()
    except BenchError:
        raise
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"{kind} {name!r} needs the Python package {error.name!r}, which is not installed"
        ) from error
    except Exception as error:
        raise BenchError(f"{named} cannot be imported: {type(error).__name__}: {error}") from error
    if kind == "benchmark":
        check_contract(found, name, named)
    return found


def check_contract(found: Any, name: str, named: str) -> None:
    """Check that an object can be recorded, and found again by the name that runs store.

    Raises:
        BenchError: it is a class, lacks a part of the contract, or has another name.
    """
    if isinstance(found, type):
        raise BenchError(f"{named} names a class: let its entry point name an instance")
    if lacks := [part for part in CONTRACT if not hasattr(found, part)]:
        raise BenchError(f"{named} is no benchmark: it has no {', '.join(lacks)}")
    if found.name != name:
        raise BenchError(f"{named} calls itself {found.name!r}: let its `name` be that of its entry point")


def at_path(benchmark: Any, name: str, path: str) -> Any:
    """Return the benchmark of a folder.

    Raises:
        WrongUseError: it works on no folder, or the folder does not fit.
    """
    if not hasattr(benchmark, "at"):
        raise WrongUseError(f"benchmark {name!r} has tasks of its own: leave out the folder {path!r}")
    return benchmark.at(path)
