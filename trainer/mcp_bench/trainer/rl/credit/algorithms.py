"""Algorithms: how the attempts at a task become weights of tokens for the three losses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mcp_bench.trainer.methods import Learning
from mcp_bench.trainer.rl.credit.conversation import Conversation
from mcp_bench.trainer.rl.credit.groups import Baseline, advantages, is_flat
from mcp_bench.trainer.rl.credit.loss import Surrogate
from mcp_bench.trainer.rl.credit.tokens import Row


@dataclass(frozen=True)
class Attempt:
    """One attempt at a task."""

    episode: str
    task: str
    rows: tuple[Row, ...]
    reward: float | None
    """None: the episode is invalid or tainted, and says nothing about the policy."""
    strict: bool = False
    cut: bool = False
    """Whether a limit ended it. It keeps its reward, but its last answer is not trained on."""
    invalid: bool = False
    """Whether it is invalid: a resumed recording attempts it again."""
    calls: int = 0
    earned: float = 0.0
    """Its grade, also if that is no reward."""
    conversation: Conversation | None = None
    """For algorithms that make hints of it."""

    @property
    def solved(self) -> bool:
        """Whether it solved the task, and may be learned from."""
        return self.strict and self.reward is not None


@dataclass(frozen=True)
class Weighted:
    """A row with its weights."""

    row: Row
    scale: float = 1.0
    """What each of its tokens counts in the mean over all tokens of a step."""
    rl: float = 0.0
    """The advantage, for the policy loss."""
    ce: float = 0.0
    """For the cross-entropy of what was sampled."""
    distillation: float = 0.0
    """For the divergence from the teacher."""
    hinted: Row | None = None
    """What the teacher reads: the same sampled tokens after another prompt. None: the row itself."""
    solved: bool = False
    """Whether the attempt was solved, to measure the teacher."""


@dataclass(frozen=True)
class Algorithm:
    """An algorithm by its parts."""

    baseline: Baseline = "mean"
    surrogate: Surrogate = "clip"
    by_sequence: bool = False
    """Whether each sequence counts the same, long or short. Otherwise each token does (DAPO)."""
    imitates: bool = False
    """Whether solved attempts are imitated, and nothing else is trained on. Each token counts one over the
    number of solved attempts at its task: so a task counts by the length of these, not by their number."""
    teacher: Literal["self", "model"] | None = None
    """Who is followed, token by token: the policy with hints in its prompt (SDPO,
    https://arxiv.org/abs/2601.20802), or another model (on-policy distillation,
    https://arxiv.org/abs/2306.13649). Rewards are not used."""

    def is_flat(self, group: Sequence[Attempt]) -> bool:
        """Return whether a group teaches nothing.

        Another model teaches with any valid attempt. A solved one can be imitated, whatever the others
        earned: so what is always solved is not forgotten.
        """
        if self.imitates:
            return not any(attempt.solved for attempt in group)
        rewards = [attempt.reward for attempt in group]
        return all(reward is None for reward in rewards) if self.teacher == "model" else is_flat(rewards)

    def weigh(
        self, group: Sequence[Attempt], *, below: float = 1.0, anchored: bool = False, imitate: float = 0.0
    ) -> list[Weighted]:
        """Return the rows of a group that there is something to learn from.

        The hints of `sdpo` are added by `Hints`; an attempt without one has nothing to teach.

        Args:
            group: the attempts at a task.
            below: the weight of advantages below 0.
            anchored: whether the loss has the divergence from the start, which holds the policy on the
                attempts of a flat group, too.
            imitate: the weight of the cross-entropy of solved attempts, of algorithms with advantages. It
                holds for a flat group, too.
        """
        if self.teacher is not None:
            return [
                Weighted(row, distillation=1.0, solved=attempt.solved)
                for attempt in group
                if attempt.reward is not None
                for row in attempt.rows
            ]
        if self.imitates:
            solved = [attempt for attempt in group if attempt.solved]
            return [Weighted(row, 1 / len(solved), ce=1.0) for attempt in solved for row in attempt.rows]
        found = []
        for attempt, advantage in zip(
            group, advantages([attempt.reward for attempt in group], self.baseline), strict=True
        ):
            ce = imitate if attempt.solved else 0.0
            if advantage is None and not ce and not (anchored and attempt.reward is not None):
                continue
            weight = (advantage or 0.0) * (below if advantage is not None and advantage < 0 else 1.0)
            found += [
                Weighted(row, 1 / int(row.sampled.sum()) if self.by_sequence else 1.0, rl=weight, ce=ce)
                for row in attempt.rows
            ]
        return found


ALGORITHMS: dict[Learning, Algorithm] = {
    "grpo": Algorithm(baseline="scaled"),
    "dr-grpo": Algorithm(),
    "rloo": Algorithm(baseline="others"),
    "gspo": Algorithm(baseline="scaled", surrogate="gspo", by_sequence=True),
    "cispo": Algorithm(baseline="scaled", surrogate="cispo"),
    "sdpo": Algorithm(teacher="self"),
    "rft": Algorithm(imitates=True),
    "opd": Algorithm(teacher="model"),
}
