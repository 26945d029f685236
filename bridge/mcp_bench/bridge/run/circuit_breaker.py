"""Conditions that end a run early: the cost limit is reached, or episodes keep failing for the same cause."""

from __future__ import annotations

from dataclasses import dataclass

import anyio

from mcp_bench.bridge.episode.episode import Outcome
from mcp_bench.bridge.roles.models import Roles
from mcp_bench.bridge.run.retry import HOPELESS
from mcp_bench.plugins.contracts import Agent
from mcp_bench.recorder.records import REFEREE_DIED
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.registry import load, registered

OUTAGE = frozenset(
    (
        "endpoint_error",
        "launch_failed",
        "never_connected",
        REFEREE_DIED,
        "role_failed",
        "server_not_connected",
    )
)
"""Invalid reasons that point to an outage when many episodes in a row have one of them."""
HOPELESS_IN_A_ROW = 5
OUTAGE_IN_A_ROW = 20


@dataclass
class Spending:
    """Cost of all attempts of a run in US dollars, including attempts before the run was resumed.

    What a world asked the models of its roles is part of it, as far as its cost is known.
    """

    limit: float | None = None
    spent: float = 0.0
    unreported: int = 0
    """Attempts for which the agent reported no cost."""

    def add(self, usage: Usage | None) -> None:
        if usage is None or usage.cost_usd is None:
            self.unreported += 1
        else:
            self.spent += usage.cost_usd

    @property
    def limit_reached(self) -> bool:
        return self.limit is not None and self.spent >= self.limit

    def __str__(self) -> str:
        unreported = f" ({self.unreported} attempts reported no cost)" if self.unreported else ""
        return f"--max-cost is reached: ${self.spent:.2f} of ${self.limit or 0:.2f} spent{unreported}"


class CircuitBreaker:
    """Stops a run early. Once tripped, no new attempt starts; running attempts finish normally."""

    def __init__(self, jobs: int, spending: Spending) -> None:
        self.reason: str | None = None
        self.tripped = anyio.Event()
        self.cut_short = False
        """Whether an episode was left unfinished because of the trip."""
        self._spending = spending
        self._jobs = jobs
        self._finished = 0
        self._streak: list[str] = []
        """Invalid reasons of the latest episodes, all HOPELESS or all OUTAGE."""
        self._check_cost()

    def attempt_ended(self, outcome: Outcome) -> None:
        """Add the attempt's cost. Call it for every attempt, retries included."""
        self._spending.add(outcome.usage)
        self._spending.spent += outcome.asked_usd
        self._check_cost()

    def episode_ended(self, outcome: Outcome) -> None:
        """Count an episode's last attempt; trip after too many failures in a row."""
        self._finished += 1
        reason = outcome.invalid
        kind = next((kind for kind in (HOPELESS, OUTAGE) if reason in kind), None)
        if kind is None or reason is None:
            self._streak.clear()
            return
        if not kind.issuperset(self._streak):
            self._streak.clear()
        self._streak.append(reason)
        enough = HOPELESS_IN_A_ROW if kind is HOPELESS else OUTAGE_IN_A_ROW
        if self._streak == ["login_missing"] * self._finished:  # the other episodes would miss it too
            enough = min(self._jobs, enough)
        if len(self._streak) >= enough:
            which = "the first episode was" if enough == 1 else f"{len(self._streak)} episodes in a row were"
            reasons = ", ".join(sorted(set(self._streak)))
            self._trip(f"{which} invalid: {reasons} ({outcome.detail}). Fix this before you resume")

    def _check_cost(self) -> None:
        if self._spending.limit_reached:
            self._trip(str(self._spending))

    def _trip(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.tripped.set()


def require_cost_reports(agent: Agent, roles: Roles) -> None:
    """Check that `--max-cost` has something to count.

    Raises:
        WrongUseError: the agent does not report its cost, and no model of a role has a price.
    """
    if agent.capabilities.reports_cost or roles.prices:
        return
    able = [name for name in registered("agent") if load("agent", name).capabilities.reports_cost]
    raise WrongUseError(
        f"agent {agent.name!r} does not report its cost, so --max-cost has no effect on it. Leave it out, or "
        "limit the run with --limit, --max-calls and --timeout. Models of roles count with --prices FILE. "
        f"Agents that report cost: {', '.join(able)}"
    )
