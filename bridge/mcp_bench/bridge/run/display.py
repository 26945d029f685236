"""What the operator sees while a run goes on: a live frame on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
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
from mcp_bench.bridge.run.progress import Clock, Pace, Tally
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.sanitize import sanitize

REFRESH_SECONDS = 0.5
SILENCE_SECONDS = 30.0
"""After so long without a line, what is not a terminal gets one that says how things are."""
DETAIL = 300
"""Characters of an error that are shown; all of them are stored."""


class Display:
    """Shows progress on stderr. Use as a context manager around the run, and run `keep_current` beside it."""

    def __init__(
        self, total: int, jobs: int, title: str, calls: Callable[[], int], *, clock: Clock = time.monotonic
    ) -> None:
        """`calls` returns the tool calls made by now, those of running episodes included."""
        self.tally = Tally()
        self._pace = Pace(total, jobs, clock)
        self._title = title
        self._calls = calls
        self._clock = clock
        self._started = self._last_line = clock()
        self._console = Console(stderr=True, highlight=False, soft_wrap=True)
        # rich takes FORCE_COLOR for a terminal, and a log file must not be full of cursor movements
        self._live = (
            Live(get_renderable=self._frame, console=self._console, auto_refresh=False, transient=True)
            if sys.stderr.isatty() and self._console.is_terminal and not self._console.is_dumb_terminal
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
        """Take the frame away and give the cursor back; closing twice is fine."""
        if self._live:
            self._live.stop()

    def began(self, planned: PlannedEpisode, retries: int) -> None:
        self.tally.began(retries)
        self._pace.began(planned)

    def ended(self, planned: PlannedEpisode, outcome: Outcome, wait: float | None) -> None:
        """Count an attempt that is over, and print its line."""
        self.tally.ended(outcome, wait)
        if wait is None:
            self._pace.finished(planned)
        again = "" if wait is None else f", again in {wait:.0f} s"
        self.say(f"[{self.tally.done}/{self._pace.total}] {line(outcome)}{again}", style(outcome))

    def say(self, text: str, style: str = "") -> None:
        """Print a line, above the frame where there is one."""
        self._last_line = self._clock()
        self._console.print(Text(" ".join(sanitize(text).split()), style))
        if self._live:
            self._live.refresh()

    async def keep_current(self) -> None:
        """Refresh the frame, or break long silences, until cancelled."""
        while True:
            self.tick()
            await anyio.sleep(REFRESH_SECONDS)

    def tick(self) -> None:
        """Do what is due by now."""
        self._pace.sample(self._calls())
        if self._live:
            self._live.refresh()
        elif self._clock() - self._last_line >= SILENCE_SECONDS:
            self.say(f"[{self.tally.done}/{self._pace.total}] {self.status()}")

    def status(self) -> str:
        """Return how things are, in one line."""
        tally, speed, left = self.tally, self._pace.calls_per_second, self._pace.seconds_left
        parts = [f"{self._pace.under_way - tally.waiting} running"]
        parts += [f"{tally.waiting} waiting"] if tally.waiting else []
        parts += [f"{tally.invalid} invalid"] if tally.invalid else []
        parts += [f"{tally.retried} retried"] if tally.retried else []
        parts += [tally.scores] if tally.graded else []
        parts += [f"{speed:.1f} calls/s"] if speed is not None else []
        spendings = tally.spendings
        return ", ".join(parts) + spendings + ("" if left is None else f", {duration(left)} left")

    def _frame(self) -> Group:
        done, total = self.tally.done, self._pace.total
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
    ending = "" if outcome.termination == "agent_exit" else f", {outcome.termination}"
    if outcome.grade is None:
        return f"{outcome.task}  recorded, not graded{ending}, {tail}"
    verdict = "strict" if outcome.grade.strict else "failed"
    return f"{outcome.task}  partial {outcome.grade.partial:.2f}, {verdict}{ending}, {tail}"


def style(outcome: Outcome) -> str:
    if outcome.invalid is not None:
        return "yellow"
    return "green" if outcome.grade is not None and outcome.grade.strict else ""
