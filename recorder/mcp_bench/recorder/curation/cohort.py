"""Cohorts for an ablation: data sets that differ in their grades and in as little else as possible.

The ablation asks whether recordings with better grades train a better model. So the cohorts `high`, `low` and
`random` of one size contain the same tasks, each equally often.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bench.recorder.curation.candidate import Candidate, quality, random_key, worth
from mcp_bench.recorder.curation.caps import by_task
from mcp_bench.servers.errors import WrongUseError


def cohort(candidates: Sequence[Candidate], which: str, size: int, seed: int) -> list[Candidate]:
    """Keep `size` episodes: the best, the worst or random attempts at each task.

    The number of episodes of a task does not depend on `which`. It is at most the number of pairs of a better
    and a worse attempt, so `high` and `low` share no episode, and a task without such a pair has none. Tasks
    take turns, in random order.

    Args:
        candidates: The episodes to choose from.
        which: `high`, `low` or `random`.
        size: The number of episodes.
        seed: Seed of the random order.

    Raises:
        WrongUseError: the tasks have fewer such pairs than `size`; the text has their number.
    """
    groups = {task: sorted(group, key=quality) for task, group in by_task(candidates).items()}
    pairs = {task: _pairs(group) for task, group in groups.items()}
    available = sum(pairs.values())
    if available < size:
        raise WrongUseError(
            f"a cohort of {size} needs as many pairs of a better and a worse attempt at a task, but there are"
            f" {available} (in {sum(map(bool, pairs.values()))} of {len(pairs)} tasks). Choose a smaller"
            " --size, drop fewer episodes, or record more attempts with --repeat"
        )
    chosen: set[str] = set()
    for task, count in _quotas(pairs, size, seed).items():
        group = groups[task]
        if which == "low":
            group = group[::-1]
        elif which == "random":
            group = sorted(group, key=lambda c: random_key(seed, c.id))
        chosen.update(one.id for one in group[:count])
    return [one for one in candidates if one.id in chosen]


def _pairs(group: Sequence[Candidate]) -> int:
    """Count the pairs (best and worst, second best and second worst, ...) whose grades differ."""
    halves = zip(group[: len(group) // 2], reversed(group), strict=False)
    return sum(worth(high) < worth(low) for high, low in halves)


def _quotas(pairs: dict[str, int], size: int, seed: int) -> dict[str, int]:
    quotas = dict.fromkeys(sorted(pairs, key=lambda task: random_key(seed, task)), 0)
    while size:
        for task in quotas:
            if size and quotas[task] < pairs[task]:
                quotas[task] += 1
                size -= 1
    return quotas
