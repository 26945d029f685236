"""Stop a run before it ruins a policy: the ways in which learning from reward is known to collapse."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, median
from typing import Any

from mcp_bench.servers.errors import BenchError, FruitlessError
from mcp_bench.trainer.rl.credit.algorithms import Attempt
from mcp_bench.trainer.rl.settings import Guards

SETTLED = 10
"""Steps before the KL divergence has a median to be compared with."""


class CollapsedError(FruitlessError):
    """Learning went wrong. The text names step, reason, some episodes and the last good checkpoint."""


class InvalidEpisodesError(BenchError):
    """Too many episodes are invalid, which says nothing about the policy; resuming attempts them again."""


@dataclass
class Watch:
    """Checks each step. Its state is stored with checkpoints."""

    settings: Guards
    entropy: float | None = None
    """Of the first step."""
    calls: float | None = None
    kls: list[float] = field(default_factory=list)
    flat: deque[float] = field(default_factory=deque)
    gaps: list[float] = field(default_factory=list)
    """Of the last steps in which solved attempts had a teacher."""

    def check_attempts(self, attempts: Sequence[Attempt], flat: float) -> None:
        """Check what was rolled out, before anything is learned from it.

        Args:
            attempts: of a step.
            flat: the share of its groups that are flat.

        Raises:
            CollapsedError: something is wrong.
            InvalidEpisodesError: too many episodes say nothing.
        """
        limits = self.settings
        invalid = [attempt for attempt in attempts if attempt.reward is None]
        cut = [attempt for attempt in attempts if attempt.cut]
        calls = sum(attempt.calls for attempt in attempts) / max(1, len(attempts))
        if len(invalid) > limits.invalid * len(attempts):
            why = f"{len(invalid)} of {len(attempts)} episodes are invalid"
            if silent := sum(not (attempt.rows or attempt.cut) for attempt in invalid):
                why += f"; in {silent}, the policy gave no answer: is its context too short for the prompt?"
            lasting = sum(not attempt.invalid for attempt in invalid)  # no resumed run attempts these again
            if lasting > limits.invalid * len(attempts):
                raise _collapsed(why, invalid)
            raise InvalidEpisodesError(_with_episodes(why, invalid))
        if len(cut) > limits.cut * len(attempts):
            raise _collapsed(f"{len(cut)} of {len(attempts)} attempts were ended by a limit of tokens", cut)
        if self.calls is None:
            self.calls = calls
        elif calls < limits.calls * self.calls:
            raise _collapsed(
                f"{calls:.2f} calls per attempt ({self.calls:.2f} at first): tool use dies", attempts
            )
        self.flat.append(flat)
        while len(self.flat) > limits.flat_steps:
            self.flat.popleft()
        if len(self.flat) == limits.flat_steps and min(self.flat) > limits.flat:
            solved = sum(attempt.strict for attempt in attempts) / max(1, len(attempts))
            way = "easy" if solved > 0.5 else "hard"
            raise _collapsed(
                f"more than {limits.flat:.0%} of the groups were flat for {limits.flat_steps} steps: the "
                f"tasks are too {way} to learn from",
                attempts,
            )

    def check_canaries(self, attempts: Sequence[Attempt]) -> None:
        """Check attempts at tasks that nothing but a leak or a fault can earn a grade for.

        Raises:
            CollapsedError: one earned something.
        """
        earned = [attempt for attempt in attempts if attempt.earned]  # cheating earns a grade, and no reward
        if earned:
            raise _collapsed(
                "a canary task gave a reward: the grader, the world or the agent is open", earned
            )

    def check_gap(self, gap: float | None, attempts: Sequence[Attempt]) -> bool:
        """Check a teacher before the policy follows it, and return whether it may.

        Args:
            gap: the difference on solved attempts, or None if there is none to measure.
            attempts: of the step.

        Raises:
            CollapsedError: the teacher is worse than the policy.
        """
        limits = self.settings
        if gap is not None:
            first = not self.gaps
            self.gaps = [*self.gaps, gap][-limits.gap_steps :]
            mean = fmean(self.gaps)
            if mean < limits.gap and (first or len(self.gaps) == limits.gap_steps):
                raise _collapsed(
                    f"the teacher is worse than the policy: tokens of solved attempts are {-mean:.3f} nats "
                    f"less probable for it (rl.guards.gap is {limits.gap:g}), so it would unteach them",
                    [attempt for attempt in attempts if attempt.strict] or attempts,
                )
        return bool(self.gaps)

    def check_update(self, figures: Any, attempts: Sequence[Attempt]) -> None:
        """Check an update's `Figures`.

        Raises:
            CollapsedError: something is wrong.
        """
        limits = self.settings
        if not math.isfinite(figures.mismatch) or figures.mismatch > limits.mismatch:
            raise _collapsed(
                f"engine and trainer differ by {figures.mismatch:.2g} nats a token (rl.guards.mismatch is "
                f"{limits.mismatch:g})",
                attempts,
            )
        if self.entropy is None:
            self.entropy = figures.entropy
        share = figures.entropy / self.entropy if self.entropy else 1.0
        if not limits.entropy_least <= share <= limits.entropy_most:
            raise _collapsed(f"the entropy is {share:.2f} times that of the first step", attempts)
        if len(self.kls) >= SETTLED and figures.kl > max(limits.kl_least, limits.kl_times * median(self.kls)):
            raise _collapsed(
                f"the KL divergence to the start is {figures.kl:.3f}, its median was {median(self.kls):.3f}",
                attempts,
            )
        self.kls.append(figures.kl)

    def state(self) -> dict[str, Any]:
        """Return what a resumed run needs."""
        return {
            "entropy": self.entropy,
            "calls": self.calls,
            "kls": self.kls,
            "flat": list(self.flat),
            "gaps": self.gaps,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from `state`."""
        self.entropy, self.calls, self.kls = state["entropy"], state["calls"], list(state["kls"])
        self.flat = deque(state["flat"])
        self.gaps = list(state.get("gaps", ()))


def _collapsed(why: str, attempts: Sequence[Attempt]) -> CollapsedError:
    return CollapsedError(_with_episodes(why, attempts))


def _with_episodes(why: str, attempts: Sequence[Attempt]) -> str:
    named = ", ".join(attempt.episode for attempt in attempts[:3])
    return f"{why}. Such episodes: {named} (mcp-bench show {attempts[0].episode})"
