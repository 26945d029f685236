"""Limits on the number of episodes of a task or a family of tasks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from mcp_bench.recorder.curation.candidate import Candidate, quality, random_key


def best_partial(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Keep the attempts at each task whose partial score is the highest one of that task."""

    def highest(group: list[Candidate]) -> list[Candidate]:
        most = max(one.partial for one in group)
        return [one for one in group if one.partial == most]

    return _kept(candidates, lambda c: c.task, highest)


def best(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """Keep the `count` best attempts at each task."""
    return _kept(candidates, lambda c: c.task, lambda group: sorted(group, key=quality)[:count])


def per_task(candidates: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """Keep a random sample of at most `count` attempts at each task. It keeps the mix of grades."""
    return _kept(candidates, lambda c: c.task, lambda group: _shuffled(group, seed)[:count])


def per_family(candidates: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """Keep a random sample of at most `count` episodes of each family.

    It is spread over as many tasks of the family as possible.
    """

    def spread(group: list[Candidate]) -> list[Candidate]:
        taken: defaultdict[str, int] = defaultdict(int)
        rounds = []
        for one in _shuffled(group, seed):
            rounds.append((taken[one.task], one))
            taken[one.task] += 1
        rounds.sort(key=lambda pair: pair[0])  # stable: the order within a round stays random
        return [one for _, one in rounds[:count]]

    return _kept(candidates, lambda c: c.family, spread)


def by_task(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """Group the candidates by task, in their order."""
    return _groups(candidates, lambda c: c.task)


def _shuffled(group: Iterable[Candidate], seed: int) -> list[Candidate]:
    return sorted(group, key=lambda c: random_key(seed, c.id))


def _groups(candidates: Iterable[Candidate], key: Callable[[Candidate], str]) -> dict[str, list[Candidate]]:
    groups: dict[str, list[Candidate]] = {}
    for one in candidates:
        groups.setdefault(key(one), []).append(one)
    return groups


def _kept(
    candidates: Sequence[Candidate],
    key: Callable[[Candidate], str],
    choose: Callable[[list[Candidate]], list[Candidate]],
) -> list[Candidate]:
    chosen = {one.id for group in _groups(candidates, key).values() for one in choose(group)}
    return [one for one in candidates if one.id in chosen]
