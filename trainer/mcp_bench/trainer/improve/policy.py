"""Policies: what to try in a generation, from what the earlier ones brought. Pure functions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_bench.servers.errors import UnknownNameError, WrongUseError

Kind = Literal["harness", "train", "rl"]
"""An edit of the harness, training on the best episodes, learning from reward."""
Choice = Literal["any", "harness", "train", "rl", "stop"]
"""`any`: the feedback agent decides."""
ACTIONS = ("harness", "train", "rl", "stop")
NAMES = ("agent", "rule", "random", "fixed:")
WITHOUT_GAIN = 2
"""Generations of one kind that bring less than a standard error, after which the rule goes on to the next."""


@dataclass(frozen=True)
class Past:
    """A generation: what was tried, and what it brought on dev."""

    action: str
    promoted: bool
    difference: float
    error: float
    """The standard error of the difference."""

    @property
    def gained(self) -> bool:
        return self.promoted and self.difference >= self.error


def check_policy(policy: str, kinds: Sequence[Kind]) -> None:
    """Check the name of a policy.

    Raises:
        UnknownNameError: there is no such policy, or no such action in a sequence.
        WrongUseError: it has an action that is not among `kinds`.
    """
    for action in _sequence(policy) if policy.startswith("fixed:") else ():
        if action not in ACTIONS:
            raise UnknownNameError("action", action, ACTIONS)
        if action in ("train", "rl") and action not in kinds:
            need = "--recipe" if action == "train" else "--recipe and --rl-steps"
            raise WrongUseError(f"--policy {policy} trains: give {need}")
    never = policy == "rule" or (policy.startswith("fixed:") and "rl" not in _sequence(policy))
    if never and "rl" in kinds:
        raise WrongUseError(f"--policy {policy} never learns from reward: leave out --rl-steps")
    if policy not in NAMES[:3] and not policy.startswith("fixed:"):
        raise UnknownNameError("policy", policy, NAMES)


def choose(policy: str, past: Sequence[Past], *, kinds: Sequence[Kind], seed: int) -> Choice:
    """Return what to try next. `kinds` are those that are left.

    - `agent`: whatever the feedback agent proposes.
    - `rule`: the harness until two generations in a row bring less than a standard error, then training until
      the same happens, then nothing.
    - `fixed:A,B,...`: these actions, in this order.
    - `random`: any of `kinds`, by the seed.
    """
    if policy == "agent":
        return "any"
    if policy == "random":
        # not a secret
        return random.Random(f"{seed} {len(past)}").choice(kinds) if kinds else "stop"  # noqa: S311
    if policy == "rule":
        if "harness" in kinds and not _exhausted(past, "harness"):
            return "harness"
        return "train" if "train" in kinds and not _exhausted(past, "train") else "stop"
    sequence = _sequence(policy)
    action = sequence[len(past)] if len(past) < len(sequence) else "stop"
    return "stop" if action == "any" else action


def _exhausted(past: Sequence[Past], action: str) -> bool:
    """Return whether the last generations with this action brought too little."""
    last = [one for one in past if one.action == action][-WITHOUT_GAIN:]
    return len(last) == WITHOUT_GAIN and not any(one.gained for one in last)


def _sequence(policy: str) -> list[Choice]:
    return policy.removeprefix("fixed:").split(",")  # type: ignore[return-value]
