"""How many episodes run at once, and how many referee processes record them."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, fields
from typing import Literal, TypeAlias

from mcp_bench.recorder.option_fields import Count, option

Processes: TypeAlias = int | Literal["auto"]
AUTO: Literal["auto"] = "auto"
ADDRESS = re.compile(r"[A-Za-z0-9_.:\[\]-]+:[0-9]{1,5}")
JOBS_EACH = 8
"""With fewer episodes at once, one process keeps up with most agents."""
EPISODES_EACH = 100
"""A process takes seconds of CPU time to start; fewer episodes are not worth it."""
PROCESSORS_EACH = 4
"""Agents and worlds need some, too: with two processors, a second process gains nothing
(docs/recording/scale.md)."""


@dataclass(frozen=True)
class Parallel:
    """What the user asked for."""

    jobs: Count = option(1, "Number of episodes to run in parallel.", metavar="J")
    referees: Processes = option(
        AUTO,
        "Number of referee processes that share these episodes. `auto` is one for each four "
        "processors, if there are at least 8 episodes at a time and 100 in all for each.",
        metavar="N|auto",
    )
    ray: bool = option(False, "Record on the nodes of a Ray cluster, instead of on this machine.")
    address: str | None = option(
        None,
        "With --ray: the head of the cluster. Default: the cluster that this machine is a node of.",
        metavar="HOST:PORT",
    )

    def __post_init__(self) -> None:
        from mcp_bench.servers.errors import WrongUseError

        if self.address is not None and not self.ray:
            raise WrongUseError("an address is that of a Ray cluster: ask for ray, or leave the address out")
        if self.ray and self.referees != AUTO:
            raise WrongUseError(
                "each node of a Ray cluster has one referee process: leave out the number of referees"
            )
        if self.address is not None and not ADDRESS.fullmatch(self.address):
            raise WrongUseError(f"{self.address!r} is not the HOST:PORT of a Ray cluster's head")

    def words(self) -> str:
        """Return the options that continue in the same place, for a command line."""
        address = f" --address {self.address}" if self.address else ""
        return f" --ray{address}" if self.ray else ""


PARALLEL = tuple(one.name for one in fields(Parallel))
"""The options that make one."""


def referees(wanted: Processes, jobs: int, episodes: int) -> int:
    """Return how many referee processes record `episodes` episodes, `jobs` of them at a time.

    Never more than either of them. `auto` is one for each four processors, if each has enough work.
    """
    if wanted != AUTO:
        return max(1, min(wanted, jobs, episodes))
    processors = len(os.sched_getaffinity(0))
    return max(1, min(processors // PROCESSORS_EACH, jobs // JOBS_EACH, episodes // EPISODES_EACH))
