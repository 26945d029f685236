"""Choose the tasks of a step: more often from families that are sometimes solved, and seldom enough."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

MEMORY = 0.7
"""Weight of what is known of a family against its newest group."""
LEAST = 0.1
"""Weight of a family that is always or never solved: it may change."""


class Curriculum:
    """Draws tasks without repeating one before all of its family were drawn."""

    def __init__(self, tasks: Sequence[str], family: Callable[[str], str], seed: int, attempts: int) -> None:
        """Begin.

        Args:
            tasks: the ids of the training tasks.
            family: the family of a task.
            seed: what the order follows from.
            attempts: at each task.
        """
        self._attempts = attempts
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

    def draw(self, count: int) -> list[str]:
        """Return the tasks of the next groups."""
        names = list(self._tasks)
        chosen = []
        for _ in range(count):
            weights = [self._weight(name) for name in names]
            name = self._random.choices(names, weights)[0]
            listed = self._tasks[name]
            chosen.append(listed[self._drawn[name] % len(listed)])
            self._drawn[name] += 1
        return chosen

    def learned(self, task: str, rewards: Sequence[float]) -> None:
        """Take the rewards of a group into account."""
        if not rewards:
            return
        name, mean = self._family(task), sum(rewards) / len(rewards)
        before = self.rewards.get(name, mean)
        self.rewards[name] = MEMORY * before + (1 - MEMORY) * mean

    def _weight(self, name: str) -> float:
        """Return a family's weight: the chance that a group is not flat, times what is left to earn.

        The variance of the reward, 4p(1 - p), gives a family that is solved nine times of ten as much as one
        that is solved once, and the first has little to learn.
        """
        mean = self.rewards.get(name, 0.5)
        flat = mean**self._attempts + (1 - mean) ** self._attempts
        return max(LEAST, (1 - flat) * (1 - mean))

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
