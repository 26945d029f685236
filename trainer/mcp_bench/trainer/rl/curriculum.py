"""Choose the tasks of a step: families in turn, more often those that are sometimes solved."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from typing import Any

MEMORY = 0.9
"""Weight of what is known of a family against its newest group. With less, the draws of a large step follow
the luck of a few groups."""
LEAST = 0.2
"""Weight of a family that is always or never solved: it may change."""


class Curriculum:
    """Draws tasks without repeating one before all of its family were drawn."""

    def __init__(self, tasks: Sequence[str], family: Callable[[str], str], seed: int) -> None:
        """Begin.

        Args:
            tasks: the ids of the training tasks.
            family: the family of a task.
            seed: what the order follows from.
        """
        self._family = family
        self._random = random.Random(seed)  # noqa: S311 - not for secrets
        self._tasks: dict[str, list[str]] = {}
        for task in tasks:
            self._tasks.setdefault(family(task), []).append(task)
        for listed in self._tasks.values():
            self._random.shuffle(listed)
        self._drawn = dict.fromkeys(self._tasks, 0)
        self.rewards: dict[str, float] = {}
        """Recent mean reward of each family that was tried."""

    def draw(self, count: int, tried: Iterable[str] = ()) -> list[str]:
        """Return the tasks of the next groups, each once.

        Args:
            count: how many. There are fewer if there are few tasks.
            tried: tasks that are left out.
        """
        taken, chosen = set(tried), list[str]()
        left = {name: sum(task not in taken for task in listed) for name, listed in self._tasks.items()}
        while len(chosen) < count and any(left.values()):
            names = [name for name, number in left.items() if number]
            name = self._random.choices(names, [self._weight(name) for name in names])[0]
            task = self._next(name)
            while task in taken:
                task = self._next(name)
            taken.add(task)
            left[name] -= 1
            chosen.append(task)
        return chosen

    def _next(self, name: str) -> str:
        listed, number = self._tasks[name], self._drawn[name]
        self._drawn[name] += 1
        return listed[number % len(listed)]

    def learned(self, task: str, rewards: Sequence[float]) -> None:
        """Take the rewards of a group into account."""
        if not rewards:
            return
        name, mean = self._family(task), sum(rewards) / len(rewards)
        before = self.rewards.get(name, mean)
        self.rewards[name] = MEMORY * before + (1 - MEMORY) * mean

    def _weight(self, name: str) -> float:
        """Return a family's weight: the variance of a reward of 0 or 1 with its mean, at most 1."""
        mean = self.rewards.get(name, 0.5)
        return max(LEAST, 4 * mean * (1 - mean))

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs."""
        return {
            "random": self._random.getstate(),
            "tasks": self._tasks,
            "drawn": dict(self._drawn),
            "rewards": dict(self.rewards),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self._random.setstate(state["random"])
        self._tasks, self._drawn = dict(state["tasks"]), dict(state["drawn"])
        self.rewards = dict(state["rewards"])
