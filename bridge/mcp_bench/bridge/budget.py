"""Money: what the agents of a run say that they cost, and what they may."""

from __future__ import annotations

from dataclasses import dataclass

from mcp_bench.plugins.contracts import Agent
from mcp_bench.recorder.trajectory import Usage
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.registry import load, registered


@dataclass
class Budget:
    """All in US dollars, over all attempts of a run, those of earlier sittings included."""

    most: float | None = None
    spent: float = 0.0
    untold: int = 0
    """Attempts that told no cost."""

    def add(self, usage: Usage | None) -> None:
        if usage is None or usage.cost_usd is None:
            self.untold += 1
        else:
            self.spent += usage.cost_usd

    @property
    def is_spent(self) -> bool:
        return self.most is not None and self.spent >= self.most

    def __str__(self) -> str:
        untold = f" ({self.untold} attempts told no cost)" if self.untold else ""
        return f"${self.spent:.2f} were spent of the ${self.most or 0:.2f} of --max-cost{untold}"


def check_cost_is_told(agent: Agent) -> None:
    """Raises:
    WrongUseError: nobody would know when the money is spent.
    """
    if agent.capabilities.reports_cost:
        return
    able = [name for name in registered("agent") if load("agent", name).capabilities.reports_cost]
    raise WrongUseError(
        f"agent {agent.name!r} does not tell what it costs, so --max-cost could not hold: leave it out, and "
        f"bound the work with --limit, --max-calls and --timeout. Agents that tell: {', '.join(able)}"
    )
