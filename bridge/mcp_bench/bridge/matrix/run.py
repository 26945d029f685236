"""Record the cells of a matrix, one after the other, each as an ordinary run."""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import click

from mcp_bench.bridge.matrix.plan import Plan, PlannedCell, run_of
from mcp_bench.bridge.roles.models import keep_logins, roles_of
from mcp_bench.bridge.run.display import Display
from mcp_bench.bridge.run.events import SIGNAL
from mcp_bench.bridge.run.run import run_to_end
from mcp_bench.bridge.run.setup import resume_run, start_run
from mcp_bench.recorder.runs.matrix import matrix_runs
from mcp_bench.servers.errors import bench_errors
from mcp_bench.servers.terminal.sanitize import sanitize, sanitize_line


@dataclass(frozen=True)
class CellResult:
    """What became of a cell."""

    planned: PlannedCell
    run: str | None
    """Its run; None if it could not be started."""
    left: int
    """Number of its episodes that are not done."""
    cost: float = 0.0
    """US dollars, as its agent reported them, for all attempts of its run."""
    why: str = ""
    """Why episodes are left."""

    @property
    def complete(self) -> bool:
        return not self.left


def record_cells(plan: Plan) -> list[CellResult]:
    """Record what is left of every cell, in the order of the file, until all had their turn or Ctrl-C.

    A cell that fails does not stop the others.
    """
    results: list[CellResult] = []
    spent = sum(one.run.cost for one in plan.cells if one.run is not None)
    stopped = False
    for number, one in enumerate(plan.cells, start=1):
        before = 0.0 if one.run is None else one.run.cost
        run = None if one.run is None else one.run.id
        if one.state == "complete":
            results.append(CellResult(one, run, 0, before))
            continue
        why = "not started" if stopped else over_budget(plan, spent)
        if why:
            results.append(CellResult(one, run, one.left, before, why))
            continue
        click.echo(sanitize_line(f"Cell {number} of {len(plan.cells)}: {one.cell.name}"), err=True)
        remaining = math.inf if plan.max_cost is None else plan.max_cost - spent
        try:
            result = record_cell(plan, one, number, before + remaining)
        except KeyboardInterrupt:  # between the checks of the cell and its first episode
            result = CellResult(one, run, one.left, before, SIGNAL)
        except BaseException as error:
            result = CellResult(one, run, one.left, before, failure(error))
        spent += result.cost - before
        if result.left and (why := over_budget(plan, spent)) and result.why != SIGNAL:
            result = replace(result, why=why)
        results.append(result)
        stopped = result.why == SIGNAL
    return results


def over_budget(plan: Plan, spent: float) -> str:
    """Return why no further cell starts; empty while the budget allows it."""
    if plan.max_cost is None or spent < plan.max_cost:
        return ""
    return f"the max-cost of the matrix is reached: ${spent:.2f} of ${plan.max_cost:.2f} spent"


def record_cell(plan: Plan, one: PlannedCell, number: int, budget: float) -> CellResult:
    """Start or resume the run of a cell.

    Args:
        plan: The matrix of the cell.
        one: The cell.
        number: Its number, for the progress.
        budget: US dollars that its run may have cost when it ends.

    Raises:
        BenchError: it cannot be started, or its recording cannot be written.
    """

    def display_of(total: int, jobs: int, title: str, calls: Callable[[], int]) -> Display:
        return Display(total, jobs, f"[cell {number}/{len(plan.cells)}] {title}", calls)

    max_cost = one.choices.max_cost
    # another process may have started it since: resuming says so
    begun = one.run or run_of(one.stored, matrix_runs(plan.name, []))
    if begun is None:
        setup, run = start_run(one.choices, one.stored, elsewhere=one.parallel.ray)
    else:
        keep_logins(roles_of(asdict(one.choices), os.environ), os.environ)  # in place of another cell's
        setup, run = resume_run(
            begun.id, max_cost, one.choices.run_tags, one.choices.note, one.choices.base_url
        )
    limit = min(math.inf if max_cost is None else max_cost, budget)
    go_on = f"mcp-bench record --config {shlex.quote(str(plan.path))}"
    with run:
        try:
            # never the limit that the run was started with: the file may have another one now
            ended = run_to_end(setup, run, one.parallel, limit, display_of, go_on)
            why = ended.stopped_by or (f"{ended.invalid} invalid" if ended.invalid else "")
        except Exception as error:  # what it has cost counts
            why = failure(error)
        left, (cost, _) = len(run.pending()), run.recording.reported_costs()
        cost += run.grades.asked_cost()
    return CellResult(one, run.id, left, cost, why)


def failure(error: BaseException) -> str:
    """Print and return why a cell failed; raise what is no failure of ours again."""
    failures = dict.fromkeys(str(failure) for failure in bench_errors(error))
    if not failures:
        raise error
    why = "; ".join(failures)
    click.echo(sanitize(f"Error: {why}"), err=True)
    return why
