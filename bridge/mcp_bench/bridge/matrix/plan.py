"""What a matrix still has to record: every cell is compared with the recorded runs, and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Literal

import click

from mcp_bench.bridge.engines.parallel import Parallel
from mcp_bench.bridge.matrix.cells import Cell
from mcp_bench.bridge.matrix.file import MatrixFile
from mcp_bench.bridge.matrix.identity import differences, digest_of, values_of
from mcp_bench.bridge.run.choices import Choices
from mcp_bench.bridge.run.setup import checked_run, planned_episodes
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.run_settings import CellOfRun
from mcp_bench.recorder.runs.matrix import MatrixRun, matrix_runs
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.registry import load

State = Literal["new", "changed", "incomplete", "complete"]
Parse = Callable[[Cell], tuple[Choices, Parallel]]
"""Returns the choices of a cell, and how many episodes run at a time."""


@dataclass(frozen=True)
class PlannedCell:
    """A cell, and the run that it has already."""

    cell: Cell
    choices: Choices
    parallel: Parallel
    stored: CellOfRun
    """What its run stores about it."""
    episodes: int
    run: MatrixRun | None = None
    """Its run; None if it has none yet."""
    changed: str = ""
    """What is different from the last run of a cell with this name, if it has none of its own."""

    @property
    def state(self) -> State:
        if self.run is not None:
            return "complete" if self.run.complete else "incomplete"
        return "changed" if self.changed else "new"

    @property
    def left(self) -> int:
        """Number of episodes to record."""
        return self.episodes if self.run is None else self.run.planned - self.run.done


@dataclass(frozen=True)
class Plan:
    """A matrix of checked cells."""

    path: Path
    name: str
    max_cost: float | None
    cells: tuple[PlannedCell, ...]
    warnings: tuple[str, ...] = ()
    """Why some cells might fail, or are recorded again."""


@dataclass
class _Faults:
    """Faults by text, each with the cells that have it."""

    found: dict[str, list[Cell]] = field(default_factory=dict)
    wrong_use: bool = True

    def add(self, error: BenchError | click.ClickException, cell: Cell) -> None:
        text = error.format_message() if isinstance(error, click.ClickException) else str(error)
        self.found.setdefault(text, []).append(cell)
        self.wrong_use &= not isinstance(error, BenchError) or isinstance(error, WrongUseError)

    def lines(self) -> list[str]:
        return [f"{text} ({cell_names(cells)})" for text, cells in self.found.items()]


def cell_names(cells: Sequence[Cell]) -> str:
    """Return the names of some cells in few words."""
    shown = ", ".join(cell.name for cell in cells[:3])
    more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
    return f"{'cell' if len(cells) == 1 else 'cells'} {shown}{more}"


def planned(file: MatrixFile, parse: Parse) -> Plan:
    """Compare all cells with what is recorded, and check those that are to be recorded.

    Raises:
        BenchError: a cell cannot be recorded; the text has the faults of all cells.
    """
    faults, passing = _Faults(), _Faults()
    unreadable: list[StorageError] = []
    current = matrix_runs(file.name, unreadable)
    cells = [one for cell in file.cells if (one := _planned(cell, file, parse, current, faults))]
    _refuse_twins(cells, faults)
    checks = _Checks()
    checked: list[PlannedCell] = []
    for one in cells:
        if one.state == "complete":
            checked.append(replace(one, episodes=one.run.planned if one.run else 0))
            continue
        try:
            checked.append(replace(one, episodes=checks.episodes(one.choices, one.parallel.ray)))
        except (BenchError, click.ClickException) as error:
            if isinstance(error, BenchError) and error.may_pass:
                passing.add(error, one.cell)
                checked.append(replace(one, episodes=checks.tasks(one.choices, one.parallel.ray)))
            else:
                faults.add(error, one.cell)
    _check_budget(file, cells, faults)
    if faults.found:
        text = "\n".join([f"{file.path}: nothing was recorded", *(f"  {line}" for line in faults.lines())])
        raise WrongUseError(text) if faults.wrong_use else BenchError(text)
    warnings = [*passing.lines(), *(f"A run cannot be read: {error}" for error in unreadable)]
    return Plan(file.path, file.name, file.max_cost, tuple(checked), tuple(warnings))


def _planned(
    cell: Cell, file: MatrixFile, parse: Parse, current: Sequence[MatrixRun], faults: _Faults
) -> PlannedCell | None:
    """Return a cell with its run, before it is checked; None if its options make no sense."""
    try:
        choices, parallel = parse(cell)
        version = None if choices.server else str(load("benchmark", choices.benchmark).version)
        values = values_of(choices, version)
        if cell.values.get("path"):  # as the file names it, from wherever the command is typed
            values["benchmark"] = f"{choices.benchmark.partition(':')[0]}:{cell.values['path']}"
    except (BenchError, click.ClickException) as error:
        faults.add(error, cell)
        return None
    stored = CellOfRun(name=file.name, cell=cell.name, digest=digest_of(values), values=values)
    run = run_of(stored, current)
    before = next((run for run in reversed(current) if run.cell.cell == cell.name), None)
    changed = differences(before.cell.values, values) if run is None and before is not None else ""
    return PlannedCell(cell, choices, parallel, stored, 0, run, changed)


def run_of(cell: CellOfRun, current: Sequence[MatrixRun]) -> MatrixRun | None:
    """Return the newest run of a cell, which it keeps when it gets another name."""
    same = [run for run in reversed(current) if run.cell.digest == cell.digest]
    return next((run for run in same if run.cell.cell == cell.cell), next(iter(same), None))


def _refuse_twins(cells: Sequence[PlannedCell], faults: _Faults) -> None:
    """Refuse cells that differ in nothing that decides their results: they would share a run."""
    known: dict[str, PlannedCell] = {}
    for one in cells:
        twin = known.setdefault(one.stored.digest, one)
        if twin is not one:
            text = f"two cells have the same settings: {twin.cell.name!r} and this one"
            faults.add(WrongUseError(text), one.cell)


class _Checks:
    """Checks cells as `start_run` does, but nothing twice: cells can differ in their seeds alone."""

    def __init__(self) -> None:
        self._runs: dict[str, BenchError | None] = {}
        self._tasks: dict[str, int | BenchError] = {}

    def episodes(self, choices: Choices, elsewhere: bool) -> int:
        """Check everything, and return the number of episodes. `elsewhere`: see `checked_run`.

        Raises:
            BenchError: something is missing.
        """
        tasks = self.tasks(choices, elsewhere)
        checked = [getattr(choices, one.name) for one in fields(choices) if one.name not in _UNCHECKED]
        key = repr([elsewhere, *checked])
        if key not in self._runs:
            try:
                checked_run(choices, elsewhere=elsewhere)
                self._runs[key] = None
            except BenchError as error:
                self._runs[key] = error
        if (fault := self._runs[key]) is not None:
            raise fault
        return tasks

    def tasks(self, choices: Choices, elsewhere: bool) -> int:
        """Return the number of episodes.

        Raises:
            BenchError: there is no such benchmark, split or task.
        """
        key = repr([elsewhere, *(getattr(choices, name) for name in _OF_TASKS)])
        if key not in self._tasks:
            try:
                self._tasks[key] = len(planned_episodes(choices, elsewhere=elsewhere)[1])
            except BenchError as error:
                self._tasks[key] = error
        found = self._tasks[key]
        if isinstance(found, BenchError):
            raise found
        return found


_OF_TASKS = ("benchmark", "split", "tasks", "tags", "limit", "server", "prompts", "repeat")
_UNCHECKED = frozenset({"repeat", "seed", "timeout", "max_calls", "retries", "retry_wait"})
"""Choices that the check of a run does not depend on."""


def _check_budget(file: MatrixFile, cells: Sequence[PlannedCell], faults: _Faults) -> None:
    if file.max_cost is None or not cells:
        return
    if not any(one.choices.prices is not None or _reports_cost(one.choices.agent) for one in cells):
        error = WrongUseError(
            "max-cost has no effect: no agent reports its cost, and no file has prices of roles. Leave it out"
        )
        faults.add(error, cells[0].cell)


def _reports_cost(agent: str) -> bool:
    """Return whether an agent reports its cost. One that cannot be loaded might: it is a fault of its own."""
    try:
        return bool(load("agent", agent.partition(":")[0]).capabilities.reports_cost)
    except BenchError:
        return True
