"""`mcp-bench record --config` and `--dry-run`: what they do and print besides the runs themselves."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.bridge.engines.parallel import PARALLEL, Parallel
from mcp_bench.recorder.cli.report import BY
from mcp_bench.recorder.counted import counted

if TYPE_CHECKING:
    from mcp_bench.bridge.matrix.cells import Cell
    from mcp_bench.bridge.matrix.plan import Parse, Plan, PlannedCell
    from mcp_bench.bridge.matrix.run import CellResult
    from mcp_bench.bridge.run.choices import Choices

ChoicesOf = Callable[[click.Context, dict[str, Any]], "Choices"]
"""Returns what to record, from the values of the options of `record`."""


def record_file(
    ctx: click.Context, path: Path, choices_of: ChoicesOf, *, as_json: bool, dry_run: bool
) -> int:
    """Check all cells of a file and record what is left of them; return the exit code.

    Raises:
        BenchError: the file or a cell is wrong; nothing was recorded.
    """
    from mcp_bench.bridge.matrix.file import read_matrix
    from mcp_bench.bridge.matrix.plan import planned
    from mcp_bench.bridge.matrix.run import record_cells
    from mcp_bench.bridge.run.events import SIGNAL

    with redirect_stdout(sys.stderr):  # benchmarks and plugins may print
        plan = planned(read_matrix(path, ctx.command), _parser(ctx, path.parent, choices_of))
    for text in plan.warnings:
        click.echo(_sanitized(f"Warning: {text}"), err=True)
    if dry_run:
        _show_plan(plan, as_json=as_json)
        return 0
    for line in _before(plan):
        click.echo(_sanitized(line), err=True)
    with redirect_stdout(sys.stderr):
        results = record_cells(plan)
    incomplete = [result for result in results if not result.complete]
    stopped = any(result.why == SIGNAL for result in results)
    runs = tuple(result.run for result in results if result.run is not None)
    if as_json:
        facts = {**_matrix(plan), "complete": not incomplete, "stopped": stopped}
        cells = [_result(result) for result in results]
        click.echo(json.dumps({**facts, "cells": cells, "report": _rows(runs)}))
    elif runs and not stopped:
        from mcp_bench.recorder.cli.report import report

        with suppress(SystemExit):  # a run cannot be read: it says so
            ctx.invoke(report, runs=runs, by=BY)
    for line in _after(plan, results, incomplete):
        click.echo(_sanitized(line), err=True)
    return 1 if incomplete else 0


def _parser(ctx: click.Context, folder: Path, choices_of: ChoicesOf) -> Parse:
    """Return what reads a cell as the command line that it stands for: checks and messages are the same."""
    from mcp_bench.bridge.matrix.settings import NOT_SETTINGS, arguments, settings_of, unset

    def parse(cell: Cell) -> tuple[Choices, Parallel]:
        settings = settings_of(ctx.command)
        words = arguments(settings, cell.values, folder)
        off = unset(settings, cell.values, folder)
        defaults = {name: value for name, value in (ctx.default_map or {}).items() if name not in off}
        with ctx.command.make_context(ctx.info_name, words, parent=ctx.parent, default_map=defaults) as own:
            values = {name: value for name, value in own.params.items() if name not in NOT_SETTINGS}
            parallel = Parallel(**{one: values.pop(one) for one in PARALLEL})
            return choices_of(own, values), parallel

    return parse


def show_run(chosen: Choices, *, as_json: bool, elsewhere: bool) -> None:
    """Check one run, and print what it would be. `elsewhere`: see `checked_run`."""
    from mcp_bench.bridge.run.setup import checked_run

    with redirect_stdout(sys.stderr):  # benchmarks and plugins may print
        setup, info = checked_run(chosen, elsewhere=elsewhere)
    if as_json:
        named = {"agent", "agent_version", "model", "benchmark", "benchmark_version"}
        tasks = [episode.task for episode in info.plan]
        facts = {**info.model_dump(include=named), "isolation": setup.level.name}
        click.echo(json.dumps({**facts, "episodes": len(tasks), "tasks": tasks}))
        return
    what = f"{info.agent} {info.agent_version} on {info.benchmark}, {counted(len(info.plan), 'episode')}"
    click.echo(_sanitized(f"{what}, isolation {setup.level.name}. Nothing was recorded."))


def show_schema(ctx: click.Context) -> None:
    """Print the JSON schema of a matrix, and exit."""
    from mcp_bench.bridge.matrix.file_model import json_schema

    click.echo(json.dumps(json_schema(ctx.command), indent=2))
    ctx.exit()


def _show_plan(plan: Plan, *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({**_matrix(plan), "cells": [_cell(one) for one in plan.cells]}))
        return
    from rich.table import Table
    from rich.text import Text

    from mcp_bench.recorder.cli.score_table import full_width

    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("cell", "episodes", "left", "state"):
        table.add_column(name, justify="right" if name in ("episodes", "left") else "left", no_wrap=True)
    for one in plan.cells:
        left = "" if one.state == "complete" else str(one.left)
        cells = (one.cell.name, str(one.episodes), left, _state(one))
        table.add_row(*(Text(_sanitized(cell)) for cell in cells))
    click.echo(_sanitized(_sums(plan)))
    full_width(table).print(table)
    click.echo("All cells were checked. Nothing was recorded.")


def _before(plan: Plan) -> Iterator[str]:
    yield _sums(plan)
    for one in plan.cells:
        if one.state == "changed":
            yield f"{one.cell.name} has changed ({one.changed}): it gets a new run"


def _after(plan: Plan, results: Sequence[CellResult], incomplete: Sequence[CellResult]) -> Iterator[str]:
    from mcp_bench.bridge.run.events import SIGNAL

    done = len(results) - len(incomplete)
    yield f"{plan.name}: {done} of {counted(len(results), 'cell')} complete"
    for result in incomplete:
        why = "stopped" if result.why == SIGNAL else result.why
        what = f"{result.planned.cell.name}: {counted(result.left, 'episode')} left"
        yield f"  {what} ({why})" if why else f"  {what}"
    if incomplete:
        yield f"Go on with: mcp-bench record --config {shlex.quote(str(plan.path))}"
    else:
        yield f"See also: mcp-bench report --matrix {plan.name} --html report.html"


def _sums(plan: Plan) -> str:
    left = sum(one.left for one in plan.cells if one.state != "complete")
    states = [one.state for one in plan.cells]
    counts = [f"{states.count(state)} {state}" for state in dict.fromkeys(states)]
    cells = f"{counted(len(states), 'cell')} ({', '.join(counts)})"
    return f"{plan.name}: {cells}, {counted(left, 'episode')} to record"


def _state(one: PlannedCell) -> str:
    if one.run is not None:
        return f"{one.state}, {one.run.id}"
    return f"changed: {one.changed}" if one.changed else one.state


def _matrix(plan: Plan) -> dict[str, Any]:
    return {"matrix": plan.name, "file": str(plan.path), "max_cost": plan.max_cost}


def _cell(one: PlannedCell) -> dict[str, Any]:
    return {
        "cell": one.cell.name,
        "state": one.state,
        "run": None if one.run is None else one.run.id,
        "changed": one.changed or None,
        "digest": one.stored.digest,
        "episodes": one.episodes,
        "left": 0 if one.state == "complete" else one.left,
        "values": one.stored.values,
    }


def _result(result: CellResult) -> dict[str, Any]:
    return {
        **_cell(result.planned),
        "run": result.run,
        "left": result.left,
        "complete": result.complete,
        "cost_usd": result.cost or None,
        "why": result.why or None,
    }


def _rows(runs: Sequence[str]) -> list[dict[str, Any]]:
    from mcp_bench.recorder.runs.find import run_paths
    from mcp_bench.recorder.scores.conditions import CONDITIONS
    from mcp_bench.recorder.scores.scores import groups, stored_episodes, summarise
    from mcp_bench.recorder.verify.accept import with_accepted

    if not runs:
        return []
    return with_accepted(summarise(stored_episodes(run_paths(runs), [], []), [*groups(BY), *CONDITIONS]))


def _sanitized(text: str) -> str:
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    return sanitize_line(text)
