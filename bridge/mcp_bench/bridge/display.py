"""What the operator sees while a run goes on: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mcp_bench.bridge.episode import Outcome


@dataclass
class Tally:
    """Running totals of a run."""

    graded: int = 0
    recorded: int = 0
    """Valid episodes that nobody grades."""
    strict: int = 0
    partial_sum: float = 0.0
    invalid: int = 0
    calls: int = 0

    def add(self, outcome: Outcome) -> None:
        self.calls += outcome.calls
        if outcome.invalid is not None:
            self.invalid += 1
        elif outcome.grade is None:
            self.recorded += 1
        else:
            self.graded += 1
            self.strict += outcome.grade.strict
            self.partial_sum += outcome.grade.partial

    @property
    def done(self) -> int:
        return self.graded + self.recorded + self.invalid

    @property
    def partial(self) -> float | None:
        """Mean partial credit of the graded episodes, None where there is none."""
        return self.partial_sum / self.graded if self.graded else None

    def __str__(self) -> str:
        invalid = f", {self.invalid} invalid" if self.invalid else ""
        if self.recorded:
            return f"{self.recorded} recorded, not graded, {self.calls} calls{invalid}"
        partial = "-" if self.partial is None else f"{self.partial:.3f}"
        return f"partial {partial}, strict {self.strict}/{self.graded}, {self.calls} calls{invalid}"


class Display:
    """Shows progress on stderr. Use as a context manager around the run."""

    def __init__(self, total: int, title: str) -> None:
        self.tally = Tally()
        self._total = total
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[tally]}"),
            console=self._console,
            disable=not self._console.is_terminal,
        )
        self._bar = self._progress.add_task(escape(title), total=total, tally="")

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, outcome: Outcome) -> None:
        """Count a finished episode and print its line."""
        self.tally.add(outcome)
        done = self.tally.done
        self._console.print(escape(f"[{done}/{self._total}] {line(outcome)}"), style=style(outcome))
        self._progress.update(self._bar, completed=done, tally=str(self.tally))

    def say(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(escape(text))


def line(outcome: Outcome) -> str:
    """Return one episode's result in one line."""
    tail = f"{outcome.calls} calls, {outcome.seconds:.1f} s, {outcome.episode}"
    if outcome.invalid is not None:
        return f"{outcome.task}  invalid: {outcome.invalid} ({outcome.detail}), {tail}"
    ending = "" if outcome.termination == "agent_exit" else f", {outcome.termination}"
    if outcome.grade is None:
        return f"{outcome.task}  recorded, not graded{ending}, {tail}"
    verdict = "strict" if outcome.grade.strict else "failed"
    return f"{outcome.task}  partial {outcome.grade.partial:.2f}, {verdict}{ending}, {tail}"


def style(outcome: Outcome) -> str:
    if outcome.invalid is not None:
        return "yellow"
    return "green" if outcome.grade is not None and outcome.grade.strict else "default"
