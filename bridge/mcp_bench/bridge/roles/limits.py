"""What the model of a role may use. Commands import this module when they start, so it imports nothing."""

from __future__ import annotations

from typing import NamedTuple


class RoleLimits(NamedTuple):
    """What the model of one role may use in one episode."""

    requests: int = 200
    tokens: int = 2_000_000
    """In all requests together, sent and received."""
    seconds: int = 120
    """For one request, further attempts included."""
    cost: float | None = None
    """US dollars, as the endpoint reports them or as the operator's prices say."""

    def of_an_episode(self) -> dict[str, float]:
        """Return the limits of all requests together, by name."""
        found = {"requests": self.requests, "tokens": self.tokens, "cost": self.cost}
        return {name: most for name, most in found.items() if most is not None}
