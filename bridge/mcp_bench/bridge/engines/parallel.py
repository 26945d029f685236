"""How many episodes run at once, and how many referee processes record them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Literal, TypeAlias

Processes: TypeAlias = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"
JOBS_EACH = 8
"""With fewer episodes at once, one process keeps up with most agents."""
EPISODES_EACH = 100
"""A process takes seconds of CPU time to start; fewer episodes are not worth it."""
PROCESSORS_EACH = 4
"""Agents and worlds need some, too: with two processors, a second process gains nothing (docs/scale.md)."""


@dataclass(frozen=True)
class Parallel:
    """What the user asked for."""

    jobs: int = 1
    referees: Processes = AUTO


def referees(wanted: Processes, jobs: int, episodes: int) -> int:
    """Return how many referee processes record `episodes` episodes, `jobs` of them at a time.

    Never more than either of them. `auto` is one for each four processors, if each has enough work.
    """
    if wanted != AUTO:
        return max(1, min(wanted, jobs, episodes))
    processors = len(os.sched_getaffinity(0))
    return max(1, min(processors // PROCESSORS_EACH, jobs // JOBS_EACH, episodes // EPISODES_EACH))
