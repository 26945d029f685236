"""Progress of a run: counts, scores so far, speed and time left."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.scores.totals import SILENT
from mcp_bench.recorder.trajectory import Usage

Clock = Callable[[], float]
"""Seconds since some fixed time."""
Slot = tuple[str, int, int]


@dataclass
class Progress:
    """Counts of episodes by result. An invalid episode that will be retried counts as waiting."""

    graded: int = 0
    recorded: int = 0
    """Valid episodes of a run without grades."""
    strict: int = 0
    partial_sum: float = 0.0
    gave_up: int = 0
    """Invalid episodes without another retry."""
    waiting: int = 0
    retried: int = 0
    """Attempts that followed an invalid one."""
    claims: int = 0
    """Graded episodes whose agent reported a failure that the referee did not see."""
    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    silent: int = 0
    """Attempts that failed at the model endpoint."""

    def began(self, retries: int) -> None:
        if retries:
            self.waiting -= 1
            self.retried += 1

    def ended(self, outcome: Outcome, wait: float | None) -> None:
        self._spent(outcome.calls, outcome.usage or Usage())
        self.silent += outcome.invalid in SILENT
        if wait is not None:
            self.waiting += 1
        elif outcome.invalid is not None:
            self.gave_up += 1
        elif outcome.grade is None:
            self.recorded += 1
        else:
            self._scored(outcome.grade.partial, outcome.grade.strict, outcome.claim)

    @classmethod
    def of(cls, episodes: Iterable[StoredEpisode]) -> Progress:
        """Return the counts of the last attempts of a run, as its report has them."""
        found = cls()
        for one in episodes:
            found.retried += one.attempt - 1
            found._spent(one.calls, Usage.model_validate(one.usage or {}))
            found.silent += one.invalid in SILENT
            if one.invalid is not None:
                found.gave_up += 1
            elif one.partial is None:
                found.recorded += one.ended_us is not None
            else:
                found._scored(one.partial, bool(one.strict), one.claim)
        return found

    def _spent(self, calls: int, usage: Usage) -> None:
        self.calls += calls
        self.input_tokens += usage.input_tokens or 0
        self.output_tokens += usage.output_tokens or 0
        if usage.cost_usd is not None:
            self.cost_usd = (self.cost_usd or 0) + usage.cost_usd

    def _scored(self, partial: float, strict: bool, claim: str | None) -> None:
        self.graded += 1
        self.claims += claim is not None
        self.strict += strict
        self.partial_sum += partial

    @property
    def done(self) -> int:
        return self.graded + self.recorded + self.gave_up

    @property
    def invalid(self) -> int:
        """Episodes whose latest attempt is invalid."""
        return self.gave_up + self.waiting

    @property
    def model_never_answered(self) -> bool:
        """Whether attempts failed at the model endpoint, and no model has done anything in any of them."""
        worked = self.graded or self.recorded or self.calls or self.output_tokens
        return bool(self.silent) and not worked

    @property
    def partial(self) -> float | None:
        """Mean partial credit of the graded episodes, or None without any."""
        return self.partial_sum / self.graded if self.graded else None

    @property
    def scores(self) -> str:
        partial = "-" if self.partial is None else f"{self.partial:.3f}"
        return f"partial {partial}, strict {self.strict}/{self.graded}"

    @property
    def spending(self) -> str:
        """Tokens and cost, where agents report them; each part begins with a comma."""
        text = ""
        if self.input_tokens or self.output_tokens:
            text += f", {short(self.input_tokens)} tokens in, {short(self.output_tokens)} out"
        return text if self.cost_usd is None else f"{text}, ${self.cost_usd:.2f}"

    def __str__(self) -> str:
        scores = f"{self.recorded} recorded, not graded" if self.recorded else self.scores
        scores = "the model never answered" if self.model_never_answered else scores
        text = f"{scores}, {self.calls} calls{self.spending}"
        text += f", {self.invalid} invalid" if self.invalid else ""
        return text + (f", {self.retried} retried" if self.retried else "")


@dataclass
class Pace:
    """Speed of a run. Memory is bounded: it keeps running episodes and the last 60 samples only."""

    total: int
    jobs: int
    clock: Clock = time.monotonic
    _since: dict[Slot, float] = field(default_factory=dict)
    _finished: int = 0
    _seconds: float = 0.0
    _samples: deque[tuple[float, int]] = field(default_factory=lambda: deque(maxlen=60))

    def began(self, planned: PlannedEpisode) -> None:
        self._since.setdefault(slot(planned), self.clock())

    def finished(self, planned: PlannedEpisode) -> None:
        self._seconds += self.clock() - self._since.pop(slot(planned))
        self._finished += 1

    @property
    def running(self) -> int:
        return len(self._since)

    def sample(self, calls: int) -> None:
        """Record the number of calls made so far, for `calls_per_second`."""
        self._samples.append((self.clock(), calls))

    @property
    def calls_per_second(self) -> float | None:
        """Calls per second over the last 60 samples."""
        if len(self._samples) < 2:
            return None
        (start, before), (end, after) = self._samples[0], self._samples[-1]
        return (after - before) / (end - start) if end > start else None

    @property
    def seconds_left(self) -> float | None:
        """Estimate from the mean duration of finished episodes; None before the first one finishes."""
        if not self._finished:
            return None
        mean, now = self._seconds / self._finished, self.clock()
        queued = self.total - self._finished - self.running
        work = queued * mean + sum(max(mean - (now - since), 0) for since in self._since.values())
        return work / max(1, min(self.jobs, queued + self.running))


def slot(planned: PlannedEpisode) -> Slot:
    return planned.task, planned.seed, planned.repeat


def short(number: int) -> str:
    """Return a count in few characters: 999, 12.3k, 4.6M."""
    for unit, size in (("M", 1_000_000), ("k", 1000)):
        if number >= size:
            return f"{number / size:.1f}{unit}"
    return str(number)
