"""At most so many of one task or one family."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from mcp_bench.recorder.curation.candidate import Candidate, lot, quality


def best(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """Keep the `count` best attempts at each task."""
    return _kept(candidates, lambda c: c.task, lambda group: sorted(group, key=quality)[:count])


def per_task(candidates: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """Keep at most `count` attempts at each task, drawn by lot: the mixture of grades stays as it is."""
    return _kept(candidates, lambda c: c.task, lambda group: _by_lot(group, seed)[:count])


def per_family(candidates: Sequence[Candidate], count: int, seed: int) -> list[Candidate]:
    """Keep at most `count` episodes of each family, drawn by lot, of as many of its tasks as can be."""

    def spread(group: list[Candidate]) -> list[Candidate]:
        taken: defaultdict[str, int] = defaultdict(int)
        turns = []
        for one in _by_lot(group, seed):
            turns.append((taken[one.task], one))
            taken[one.task] += 1
        turns.sort(key=lambda turn: turn[0])  # stable: within a turn the lot decides
        return [one for _, one in turns[:count]]

    return _kept(candidates, lambda c: c.family, spread)


def by_task(candidates: Iterable[Candidate]) -> dict[str, list[Candidate]]:
    """Return the candidates of each task, in the order they came."""
    return _groups(candidates, lambda c: c.task)


def _by_lot(group: Iterable[Candidate], seed: int) -> list[Candidate]:
    return sorted(group, key=lambda c: lot(seed, c.id))


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
