"""Rollouts as rows of other trainers: the tokens that a policy sampled, never tokenized again.

Each row is one sequence of an attempt (see `tokens`). The names are those of the trainers' own classes:
prime-rl's `TrainingSample` (src/prime_rl/transports/rollouts/types.py, as of August 2026) and verl's
`AgentLoopOutput` (verl/experimental/agent_loop/agent_loop.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, Literal

from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.trainer.rl.collect import read_attempt
from mcp_bench.trainer.rl.credit.algorithms import Attempt
from mcp_bench.trainer.rl.credit.groups import Baseline, advantages
from mcp_bench.trainer.rl.credit.tokens import Row

Form = Literal["prime-rl", "verl"]


def rollout_rows(
    readers: Sequence[RunReader], form: Form, *, baseline: Baseline, temperature: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of all valid attempts.

    The attempts at a task of one run are a group.

    Args:
        readers: the recordings.
        form: whose rows.
        baseline: what a reward is compared with, for trainers that take advantages.
        temperature: at which the policy was sampled.

    Raises:
        BenchError: a task is not one of `train`, or an answer has no tokens.
    """
    make: Callable[..., dict[str, Any]] = {"prime-rl": _prime_rl, "verl": _verl}[form]
    for reader in readers:
        episodes = list(reader.episodes())
        attempts = sorted((read_attempt(reader, one) for one in episodes), key=lambda one: one.task)
        for _, listed in groupby(attempts, key=lambda one: one.task):
            group = list(listed)
            earned = advantages([attempt.reward for attempt in group], baseline)
            for attempt, advantage in zip(group, earned, strict=True):
                if attempt.reward is not None:
                    for row in attempt.rows:
                        yield make(episodes[0].run, attempt, row, advantage or 0.0, temperature)


def _prime_rl(run: str, attempt: Attempt, row: Row, advantage: float, temperature: float) -> dict[str, Any]:
    """Return the fields of a `TrainingSample`: arrays over all tokens of the sequence."""
    size = len(row.tokens)
    return {
        "token_ids": row.tokens.tolist(),
        "mask": row.sampled.tolist(),
        "logprobs": row.logprobs.tolist(),
        "temperatures": [temperature] * size,
        "env_name": attempt.task,
        "advantages": [advantage if chosen else 0.0 for chosen in row.sampled.tolist()],
    }


def _verl(run: str, attempt: Attempt, row: Row, advantage: float, temperature: float) -> dict[str, Any]:
    """Return the fields of an `AgentLoopOutput`. verl computes advantages itself, from groups by `uid`."""
    begun = row.prompt
    return {
        "prompt_ids": row.tokens[:begun].tolist(),
        "response_ids": row.tokens[begun:].tolist(),
        "response_mask": row.sampled[begun:].astype(int).tolist(),
        "response_logprobs": row.logprobs[begun:].tolist(),
        "reward_score": attempt.reward,
        "num_turns": attempt.calls + 1,
        "metrics": {},
        "extra_fields": {"uid": f"{run}/{attempt.task}", "episode": attempt.episode},
    }
