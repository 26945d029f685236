"""Progress display of a run: a live status on a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from datetime import timedelta
from types import TracebackType
from typing import Self

import anyio
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.bridge.run.progress import Clock, Pace, Progress
from mcp_bench.recorder.records import NORMAL_ENDS, PlannedEpisode
from mcp_bench.servers.terminal.live import is_live
from mcp_bench.servers.terminal.sanitize import sanitize

REFRESH_SECONDS = 0.5
SILENCE_SECONDS = 30.0
"""Without a terminal, print a status line after so many seconds without output."""
DETAIL = 300
"""Characters of an error to show; the recording has the whole text."""


class Display:
    """Shows progress on stderr. Use it as a context manager, with `keep_current` as a task beside the run."""

    def __init__(
        self, total: int, jobs: int, title: str, calls: Callable[[], int], *, clock: Clock = time.monotonic
    ) -> None:
        """`calls` returns the number of tool calls so far, including those of running episodes."""
        self.progress = Progress()
        self._pace = Pace(total, jobs, clock)
        self._title = title
        self._calls = calls
        self._clock = clock
        self._started = self._last_line = clock()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        self._live = (
            Live(get_renderable=self._frame, console=self._console, auto_refresh=False, transient=True)
            if is_live(self._console)
            else None
        )

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the live status and restore the cursor; closing twice is fine."""
        if self._live:
            self._live.stop()

    def began(self, planned: PlannedEpisode, retries: int) -> None:
        self.progress.began(retries)
        self._pace.began(planned)

    def ended(self, planned: PlannedEpisode, outcome: Outcome, wait: float | None) -> None:
        """Count a finished attempt and print its line."""
        self.progress.ended(outcome, wait)
        if wait is None:
            self._pace.finished(planned)
        again = "" if wait is None else f", retry in {wait:.0f} s"
        again = ", again after the others" if wait == math.inf else again
        self.say(f"[{self.progress.done}/{self._pace.total}] {line(outcome)}{again}", style(outcome))

    def say(self, text: str, style: str = "") -> None:
        """Print a line, above the live status if there is one."""
        self._last_line = self._clock()
        self._console.print(Text(" ".join(sanitize(text).split()), style))
        if self._live:
            self._live.refresh()

    async def keep_current(self) -> None:
        """Refresh the live status, or print status lines after long silences, until cancelled."""
        while True:
            self.tick()
            await anyio.sleep(REFRESH_SECONDS)

    def tick(self) -> None:
        """Sample the speed, and refresh or print the status if it is due."""
        self._pace.sample(self._calls())
        if self._live:
            self._live.refresh()
        elif self._clock() - self._last_line >= SILENCE_SECONDS:
            self.say(self.status_line())

    def status_line(self) -> str:
        return f"[{self.progress.done}/{self._pace.total}] {self.status()}"

    def status(self) -> str:
        """Return the status of the run in one line."""
        progress, speed, left = self.progress, self._pace.calls_per_second, self._pace.seconds_left
        parts = [f"{self._pace.running - progress.waiting} running"]
        parts += [f"{progress.waiting} waiting"] if progress.waiting else []
        parts += [f"{progress.invalid} invalid"] if progress.invalid else []
        parts += [f"{progress.retried} retried"] if progress.retried else []
        parts += [progress.scores] if progress.graded else []
        parts += [f"{speed:.1f} calls/s"] if speed is not None else []
        spending = progress.spending
        return ", ".join(parts) + spending + ("" if left is None else f", {duration(left)} left")

    def _frame(self) -> Group:
        done, total = self.progress.done, self._pace.total
        head = Table.grid(padding=(0, 1))
        head.add_row(
            Text(sanitize(self._title)),
            ProgressBar(total=total, completed=done, width=24, complete_style="green"),
            Text(f"{done}/{total}"),
            Text(duration(self._clock() - self._started)),
        )
        return Group(head, Text(self.status()))


def duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def line(outcome: Outcome) -> str:
    """Return one attempt's result in one line."""
    tail = f"{outcome.calls} calls, {outcome.seconds:.1f} s, {outcome.episode}"
    if outcome.invalid is not None:
        return f"{outcome.task}  invalid: {outcome.invalid} ({(outcome.detail or '')[:DETAIL]}), {tail}"
    ending = "" if outcome.termination in NORMAL_ENDS else f", {outcome.termination}"
    if outcome.grade is None:
        return f"{outcome.task}  recorded, not graded{ending}, {tail}"
    verdict = "strict" if outcome.grade.strict else "failed"
    claim = f", though the agent reports {outcome.claim[:DETAIL]}" if outcome.claim else ""
    score = f", {outcome.grade.score.words()}" if outcome.grade.score else ""
    return f"{outcome.task}  partial {outcome.grade.partial:.2f}, {verdict}{score}{ending}{claim}, {tail}"


def style(outcome: Outcome) -> str:
    if outcome.invalid is not None:
        return "yellow"
    return "green" if outcome.grade is not None and outcome.grade.strict else ""
