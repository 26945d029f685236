"""`mcp-bench benchmarks install` and `remove`."""

from __future__ import annotations

import json
import sys

import click

INSTALL_EPILOG = """\b
Examples:
  mcp-bench benchmarks install reasoning-gym
  mcp-bench benchmarks install bfcl --python python3.12
  PIP_INDEX_URL=https://pypi.example.org/simple mcp-bench benchmarks install tau2
"""
REMOVE_EPILOG = """\b
Examples:
  mcp-bench benchmarks remove reasoning-gym
"""


@click.command(epilog=INSTALL_EPILOG)
@click.argument("benchmark")
@click.option("--python", metavar="PATH", help="The Python to build it with: a path, or a name on PATH.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def install(benchmark: str, python: str | None, as_json: bool) -> None:
    """Build the environment that BENCHMARK runs in, from its pinned list of packages.

    It goes into the home of mcp-bench, and `record` finds it there. Nothing is installed next to mcp-bench.
    After a failure or Ctrl-C, the same command goes on where it stopped.
    """
    import os
    import time

    from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, HasEnvironment, with_defaults
    from mcp_bench.servers.environments.build import build
    from mcp_bench.servers.environments.pins import read_pins
    from mcp_bench.servers.environments.places import LABEL, folder
    from mcp_bench.servers.errors import BenchError, WrongUseError
    from mcp_bench.servers.registry import load

    found: Benchmark = load("benchmark", benchmark)
    if not isinstance(found, HasEnvironment) or found.pins is None:
        how = with_defaults(found, BenchmarkDefaults).install
        text = f"Install it with: {how}" if how else "It needs nothing that is not there"
        raise WrongUseError(f"{benchmark} has no environment of its own. {text}")
    pins, place, variable = read_pins(found.pins), folder(benchmark), found.python_variable
    started = time.monotonic()
    changed = build(benchmark, pins, python, say)
    named = os.environ.pop(variable, "")  # what was built is tested, whatever else is named
    try:
        first = next(found.tasks(limit=1)).id  # its worker starts, with all its imports
        python_there = found.python
    except (BenchError, StopIteration) as error:
        if changed:
            (place / LABEL).unlink(missing_ok=True)
        raise BenchError(
            f"the environment in {place} was built, but {benchmark} does not run in it: {error}"
        ) from error
    finally:
        if named:
            os.environ[variable] = named
    if named not in ("", python_there):
        click.echo(f"${variable} names another Python, {named}, which is used instead.", err=True)
    size = megabytes(place)
    if as_json:
        document = {
            "benchmark": benchmark,
            "folder": str(place),
            "python": python_there,
            "packages": list(pins.packages),
            "megabytes": size,
            "changed": changed,
            "seconds": round(time.monotonic() - started, 1),
        }
        click.echo(json.dumps(document, indent=2))
        return
    done = "is installed" if changed else "was installed already"
    click.echo(f"{benchmark} {done}: {len(pins.packages)} packages, {size} MB, in {place}")
    click.echo(f"Try it: mcp-bench record --agent oracle --benchmark {benchmark} --task '{first}'")


@click.command(epilog=REMOVE_EPILOG)
@click.argument("benchmark")
def remove(benchmark: str) -> None:
    """Remove the environment that `install` built for BENCHMARK. Recordings stay."""
    from mcp_bench.servers.environments.build import remove as remove_environment
    from mcp_bench.servers.registry import load

    load("benchmark", benchmark)  # a wrong name gets a suggestion, and is no path
    done = remove_environment(benchmark)
    click.echo(f"removed the environment of {benchmark}" if done else f"{benchmark} has no environment here")


def say(line: str) -> None:
    """Print a step on stderr. On a terminal, one package replaces the other."""
    live = sys.stderr.isatty()
    if live:
        click.echo("\r\033[K", nl=False, err=True)
    click.echo(line, nl=not (live and line.startswith(" ")), err=True)


def megabytes(place: object) -> int:
    """Return the size of a folder. Links are not followed."""
    from pathlib import Path

    files = (path for path in Path(str(place)).rglob("*") if not path.is_symlink() and path.is_file())
    return round(sum(path.stat().st_size for path in files) / 1e6)
