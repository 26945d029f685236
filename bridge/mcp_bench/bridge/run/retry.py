"""Retry policy: which invalid episodes are tried again, and after which wait.

Only failures of the harness or the model endpoint that can be temporary are retried. A result of the agent
itself never is.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from mcp_bench.recorder.records import REFEREE_DIED

TRANSIENT = frozenset(
    {
        "endpoint_error",
        "launch_failed",
        "never_connected",
        REFEREE_DIED,  # one of several, while the run goes on
        "role_failed",
        "server_died",
        "server_not_connected",
        "world_failed",
    }
)
"""Invalid reasons that a retry can fix."""
HOPELESS = frozenset({"approval_needed", "bad_option", "login_missing"})
"""Invalid reasons that only the operator can fix."""

MAX_WAIT_SECONDS = 300.0
JITTER = 0.25


@dataclass(frozen=True)
class Retries:
    """How often an episode is retried, and how long the first retry waits."""

    limit: int
    wait: float
    """Seconds before the first retry. It doubles each time, up to five minutes, and up to a quarter is added
    at random, so that episodes that failed together do not retry together."""

    def next_wait(self, invalid: str | None, made: int) -> float | None:
        """Return the seconds to wait before the next attempt after `made` retries, or None for no retry."""
        if invalid not in TRANSIENT or made >= self.limit:
            return None
        jitter = 1 + JITTER * random.random()  # noqa: S311 - not a secret
        return min(self.wait * 2.0 ** min(made, 32), MAX_WAIT_SECONDS) * jitter
