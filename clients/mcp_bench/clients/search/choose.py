"""Which earlier versions a model sees before it proposes the next one: in this alone, drivers differ."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

SHOWN = 3
"""Versions that `icl` shows."""
POPULATION = 8
EXPLORE = 1.0
"""Weight of what was seldom tried in `puct`."""


@dataclass
class Version:
    """A version that was run. The first is the baseline."""

    number: int
    files: Mapping[str, str]
    said: str
    """What the experiment said."""
    low: float | None
    """The gain over the baseline at the worse end of its interval; None: it has none."""
    parents: tuple[int, ...] = ()
    children: int = field(default=0, compare=False)
    """Proposals that were made from it."""


Choose = Callable[[Sequence[Version], Random], list[Version]]
"""Returns the versions to show, the one to work on last. There is at least the baseline."""


def merit(version: Version) -> float:
    return -math.inf if version.low is None else version.low


def single(versions: Sequence[Version], rng: Random) -> list[Version]:
    """One line of work: go on with the last version, or with the best if the last one failed."""
    return [versions[-1] if versions[-1].low is not None else max(versions, key=merit)]


def best_of_n(versions: Sequence[Version], rng: Random) -> list[Version]:
    """Proposals that know nothing of each other: always the baseline."""
    return [versions[0]]


def icl(versions: Sequence[Version], rng: Random) -> list[Version]:
    """In-context learning: the best versions, the best one last."""
    return sorted(versions, key=merit)[-SHOWN:]


def puct(versions: Sequence[Version], rng: Random) -> list[Version]:
    """Tree search over versions: good ones, and those from which little was tried (Rosin, 2011).

    A version's value is its rank, so that the scale of gains does not matter.
    """
    usable = sorted(_usable(versions), key=merit)
    tried = sum(version.children for version in usable)

    def bound(rank: int, version: Version) -> float:
        value = rank / max(1, len(usable) - 1)
        return value + EXPLORE * math.sqrt(tried + 1) / (1 + version.children) / len(usable)

    return [max(enumerate(usable), key=lambda pair: bound(*pair))[1]]


def evolve(versions: Sequence[Version], rng: Random) -> list[Version]:
    """Evolution: two parents from the best few, each the better of two drawn ones."""
    fittest = sorted(_usable(versions), key=merit)[-POPULATION:]
    drawn = [max(rng.choices(fittest, k=2), key=merit) for _ in range(2)]
    first, second = sorted(drawn, key=merit)
    return [second] if first is second else [first, second]


def _usable(versions: Sequence[Version]) -> list[Version]:
    """Return the versions with a gain, or the baseline if none has one."""
    return [version for version in versions if version.low is not None] or [versions[0]]


DRIVERS: dict[str, Choose] = {
    "single": single,
    "icl": icl,
    "best-of-n": best_of_n,
    "puct": puct,
    "evolve": evolve,
}
