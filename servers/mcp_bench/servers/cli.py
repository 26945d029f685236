"""The commands `mcp-bench benchmarks` and `mcp-bench tasks`."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.servers.environments.cli import install, remove

if TYPE_CHECKING:  # imported late: every start of the command line imports this module
    from mcp_bench.servers.contracts import Benchmark

BENCHMARKS_EPILOG = """\b
Examples:
  mcp-bench benchmarks
  mcp-bench benchmarks --json
  mcp-bench benchmarks install reasoning-gym
"""

TASKS_EPILOG = """\b
Examples:
  mcp-bench tasks saasworld                        the default set
  mcp-bench tasks saasworld --split test --limit 5
  mcp-bench tasks saasworld --json                 with whole prompts
  mcp-bench tasks saasworld --split train --tag level-1 --ids > ids.txt
  mcp-bench tasks harbor --path ~/my-tasks
"""


SHOWN = 5
"""Tasks that a line about what they need names."""


@click.group(epilog=BENCHMARKS_EPILOG, invoke_without_command=True)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def benchmarks(ctx: click.Context, as_json: bool) -> None:
    """List the benchmarks. Install those that need an environment of their own."""
    if ctx.invoked_subcommand is None:
        listing(as_json)


benchmarks.add_command(install)
benchmarks.add_command(remove)


def listing(as_json: bool) -> None:
    """Print the benchmarks: installed or not, licence, what is missing, and how to install it."""
    from mcp_bench.servers.errors import BenchError
    from mcp_bench.servers.registry import load, registered

    rows: list[dict[str, Any]] = []
    for name in registered("benchmark"):
        try:
            rows.append(facts(name, load("benchmark", name)))
        except Exception as error:  # a broken benchmark must not hide the others
            text = str(error) if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
            rows.append({"name": name, "error": text})
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    show(
        ["benchmark", "version", "installed", "licence", "summary"],
        [
            [
                row["name"],
                row.get("version", "-"),
                "yes" if row.get("installed") else "no",
                row.get("licence", "-"),
                row.get("summary") or row.get("error", ""),
            ]
            for row in rows
        ],
    )
    for row in rows:
        if "missing" in row:
            advice = f". Install it with: {row['install']}" if "install" in row else ""
            note(f"{row['name']} cannot run here: {row['missing']}{advice}")


def facts(name: str, found: Benchmark) -> dict[str, Any]:
    """Return the row of a benchmark."""
    from mcp_bench.servers.contracts import BenchmarkDefaults, with_defaults

    row: dict[str, Any] = {
        "name": name,
        "version": found.version,
        "summary": found.summary,
        "replay": found.replay,
    }
    parts = with_defaults(found, BenchmarkDefaults)
    further = {"install": parts.install, "licence": parts.licence, "missing": parts.missing()}
    row |= {key: value for key, value in further.items() if value}
    row["installed"] = "missing" not in row
    return row


@click.command(epilog=TASKS_EPILOG)
@click.argument("benchmark")
@click.option("--split", metavar="NAME", help="Only this split, such as train, dev, test or private; or all.")
@click.option(
    "--tag", "tags", metavar="TAG", multiple=True, help="Only tasks with this tag (repeatable: with all)."
)
@click.option("--path", metavar="DIR", help="The folder of its tasks, for a benchmark like harbor.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="The first N tasks only.")
@click.option("--ids", is_flag=True, help="Print ids alone, one a line.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with whole prompts.")
def tasks(
    benchmark: str,
    split: str | None,
    tags: tuple[str, ...],
    path: str | None,
    limit: int | None,
    ids: bool,
    as_json: bool,
) -> None:
    """List the tasks of BENCHMARK. Say which of them cannot run on this machine."""
    from mcp_bench.servers.errors import BenchError
    from mcp_bench.servers.needs import unmet
    from mcp_bench.servers.registry import load
    from mcp_bench.servers.tagged import tagged, whole_list
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    if ids and as_json:
        raise click.UsageError("--ids and --json are two ways to print: leave out one of them")
    source: Benchmark = load("benchmark", benchmark if path is None else f"{benchmark}:{path}")
    try:
        with redirect_stdout(sys.stderr):  # benchmarks may print
            found = whole_list(tagged(source, split, tags, limit), source, split, limit)
    except BenchError:
        raise
    except Exception as error:  # raised by the benchmark's code
        text = f"benchmark {source.name!r} cannot list its tasks: {type(error).__name__}: {error}"
        raise BenchError(text) from error
    if ids:
        for task in found:
            click.echo(sanitize_line(task.id))
        return
    reasons = {task.needs: unmet(task.needs) for task in found}
    if as_json:
        listing = [
            task.model_dump(mode="json", exclude_none=True) | {"cannot_run": reasons[task.needs]}
            for task in found
        ]
        click.echo(json.dumps(listing, indent=2))
        return
    show(
        ["task", "split", "domain", "tags", "prompt"],
        [
            [task.id, task.split, task.domain, " ".join(task.tags), " ".join(task.prompt.split())]
            for task in found
        ],
    )
    blocked: dict[str, list[str]] = {}
    for task in found:
        if why := "; ".join(reasons[task.needs]):
            blocked.setdefault(why, []).append(task.id)
    for why, names in blocked.items():
        few = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
        note(f"{len(names)} of {len(found)} tasks cannot run here, because {why}: {few}")


def note(text: str) -> None:
    """Print a line below a table."""
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    click.echo(f"\n{sanitize_line(text)}")


def show(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table. The last column is cut to fit the terminal, but not in a file or a pipe."""
    import shutil

    from mcp_bench.servers.terminal.sanitize import sanitize_line

    table = [columns, *(list(map(sanitize_line, row)) for row in rows)]
    widths = [max(map(len, cells)) for cells in zip(*table, strict=True)][:-1]
    width = shutil.get_terminal_size(fallback=(sys.maxsize, 0)).columns
    left = max(width - sum(widths) - 2 * len(widths), 20)
    for row in table:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        text = row[-1] if len(row[-1]) <= left else row[-1][: left - 1] + "…"
        click.echo("  ".join([*cells, text]))
