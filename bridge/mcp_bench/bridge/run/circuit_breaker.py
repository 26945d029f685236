"""What ends a run before its last episode: money that is spent, and trouble that hits every episode."""

from __future__ import annotations

import anyio

from mcp_bench.bridge.budget import Budget
from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.bridge.run.retry import HOPELESS

OUTAGE = frozenset({"endpoint_error", "launch_failed", "never_connected", "server_not_connected"})
"""Reasons that, without anything else for long, mean that nothing works at all."""
HOPELESS_IN_A_ROW = 5
OUTAGE_IN_A_ROW = 20


class Brakes:
    """Once they are pulled, no attempt is begun any more, and those under way end as they would."""

    def __init__(self, jobs: int, budget: Budget) -> None:
        self.reason: str | None = None
        self.pulled = anyio.Event()
        self.cut_short = False
        """Whether they kept an episode from coming to its end."""
        self._budget = budget
        self._jobs = jobs
        self._finished = 0
        self._row: list[str] = []
        """Why the last episodes were invalid, as long as it was all hopeless, or all an outage."""
        self._look_at_the_money()

    def attempt_ended(self, outcome: Outcome) -> None:
        """Take note of what an attempt cost, the last of its episode or not."""
        self._budget.add(outcome.usage)
        self._look_at_the_money()

    def episode_ended(self, outcome: Outcome) -> None:
        """Take note of how an episode came out that is not tried again."""
        self._finished += 1
        reason = outcome.invalid
        kind = next((kind for kind in (HOPELESS, OUTAGE) if reason in kind), None)
        if kind is None or reason is None:
            self._row.clear()
            return
        if not kind.issuperset(self._row):
            self._row.clear()
        self._row.append(reason)
        enough = HOPELESS_IN_A_ROW if kind is HOPELESS else OUTAGE_IN_A_ROW
        if self._row == ["login_missing"] * self._finished:  # it would be missing for all the others, too
            enough = min(self._jobs, enough)
        if len(self._row) >= enough:
            which = "the first episode" if enough == 1 else f"{len(self._row)} episodes in a row"
            reasons = ", ".join(sorted(set(self._row)))
            self._pull(f"{which} came out as {reasons} ({outcome.detail}): see to it before you go on")

    def _look_at_the_money(self) -> None:
        if self._budget.is_spent:
            self._pull(str(self._budget))

    def _pull(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.pulled.set()
