"""Which episodes are tried again: those where the harness or the model endpoint failed for a while.

What an agent does is never tried again, and neither is what will not get better by itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

PASSING = frozenset(
    {
        "endpoint_error",
        "launch_failed",
        "never_connected",
        "server_died",
        "server_not_connected",
        "world_failed",
    }
)
"""Reasons of invalid episodes that may be gone the next time."""
HOPELESS = frozenset({"approval_needed", "bad_option", "login_missing"})
"""Reasons that only the operator can do something about."""

MOST_SECONDS = 300.0
JITTER = 0.25


@dataclass(frozen=True)
class Retries:
    """How often an episode is tried again, and how long the first of these waits."""

    most: int = 2
    wait: float = 5.0
    """Seconds; doubled each time, up to five minutes, and lengthened by chance (by a quarter at most), so
    that episodes which failed together do not come back together."""

    def next_wait(self, invalid: str | None, made: int) -> float | None:
        """Return the seconds to wait before the next attempt after `made` retries; None: there is none."""
        if invalid not in PASSING or made >= self.most:
            return None
        lengthened = 1 + JITTER * random.random()  # noqa: S311 - not a secret
        return min(self.wait * 2.0 ** min(made, 32), MOST_SECONDS) * lengthened
