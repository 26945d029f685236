"""Cohorts for an ablation: data that differs in its grades, and in nothing else that can be helped.

What is to be found out is whether better graded recordings train a better model. So the cohorts `high`,
`low` and `random` of one size have the same tasks, each as often.
"""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bench.recorder.curation.candidate import Candidate, lot, quality
from mcp_bench.recorder.curation.caps import by_task
from mcp_bench.servers.errors import WrongUseError


def cohort(candidates: Sequence[Candidate], which: str, size: int, seed: int) -> list[Candidate]:
    """Keep `size` episodes: of each task its best, its worst, or any attempts.

    How many a task gives does not depend on `which`. It gives at most as many as it has pairs of a
    better and a worse attempt, so that `high` and `low` share none, and tasks without a contrast give
    none. Tasks take turns, in an order drawn by lot.

    Raises:
        WrongUseError: the tasks have fewer such pairs than `size`; the text says how many.
    """
    groups = {task: sorted(group, key=quality) for task, group in by_task(candidates).items()}
    pairs = {task: _pairs(group) for task, group in groups.items()}
    there = sum(pairs.values())
    if there < size:
        raise WrongUseError(
            f"a cohort of {size} needs as many pairs of a better and a worse attempt at one task, and there"
            f" are {there} (in {sum(map(bool, pairs.values()))} of {len(pairs)} tasks): choose a smaller"
            " --size, drop fewer episodes, or record more attempts with --repeat"
        )
    chosen: set[str] = set()
    for task, count in _quotas(pairs, size, seed).items():
        group = groups[task]
        if which == "low":
            group = group[::-1]
        elif which == "random":
            group = sorted(group, key=lambda c: lot(seed, c.id))
        chosen.update(one.id for one in group[:count])
    return [one for one in candidates if one.id in chosen]


def _pairs(group: Sequence[Candidate]) -> int:
    """Count the pairs (best and worst, second best and second worst, ...) whose grades differ."""
    halves = zip(group[: len(group) // 2], reversed(group), strict=False)
    return sum((high.strict, high.partial) > (low.strict, low.partial) for high, low in halves)


def _quotas(pairs: dict[str, int], size: int, seed: int) -> dict[str, int]:
    quotas = dict.fromkeys(sorted(pairs, key=lambda task: lot(seed, task)), 0)
    while size:
        for task in quotas:
            if size and quotas[task] < pairs[task]:
                quotas[task] += 1
                size -= 1
    return quotas
