"""Rows of exact tokens, advantages of groups, and the weights that algorithms give."""

from __future__ import annotations

import math
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.trainer.rl.algorithms import ALGORITHMS, Attempt
from mcp_bench.trainer.rl.collect import trainable
from mcp_bench.trainer.rl.credit import advantages, is_flat
from mcp_bench.trainer.rl.curriculum import Curriculum
from mcp_bench.trainer.rl.tokens import Row, Sampled, make_rows

pytestmark = pytest.mark.unit

IDS = st.lists(st.integers(0, 9), min_size=1, max_size=6)
REWARDS = st.lists(st.none() | st.sampled_from((0.0, 0.25, 0.5, 1.0)), min_size=1, max_size=8)


def answer(prompt: list[int], tokens: list[int], cut: bool = False) -> Sampled:
    return Sampled(tuple(prompt), tuple(tokens), (-0.5,) * len(tokens), cut)


@given(st.lists(st.tuples(IDS, IDS), min_size=1, max_size=5))
def test_turns_that_extend_each_other_are_one_row(turns: list[tuple[list[int], list[int]]]) -> None:
    tokens: list[int] = []
    answers, chosen = [], []
    for prompt, sampled in turns:
        answers.append(answer([*tokens, *prompt], sampled))
        tokens += [*prompt, *sampled]
        chosen += [*[False] * len(prompt), *[True] * len(sampled)]
    [row] = make_rows(answers)
    assert row.tokens.tolist() == tokens
    assert row.sampled.tolist() == chosen
    assert row.logprobs.tolist() == [-0.5 if one else 0.0 for one in chosen]


def test_a_cut_answer_of_a_later_row_is_not_learned_from() -> None:
    sampled = [answer([1, 2], [3, 4]), answer([9], [5, 6], cut=True)]
    [whole, cut] = make_rows(sampled)
    assert whole.sampled.sum() == cut.sampled.sum() == 2
    [kept] = trainable(sampled, cut=True)
    assert kept.tokens.tolist() == [1, 2, 3, 4]


@given(IDS, IDS, IDS)
def test_a_rewritten_history_is_a_row_of_its_own(
    prompt: list[int], first: list[int], second: list[int]
) -> None:
    rewritten = [prompt[0] + 1, *prompt[1:], *first]
    rows = make_rows([answer(prompt, first), answer(rewritten, second), answer([*prompt, *first], second)])
    assert [row.tokens.tolist() for row in rows] == [[*prompt, *first, *second], [*rewritten, *second]]
    assert sum(int(row.sampled.sum()) for row in rows) == len(first) + 2 * len(second)


@given(REWARDS, st.sampled_from(("mean", "scaled", "others")))
def test_advantages_are_around_the_mean_of_valid_attempts(rewards: list[float | None], baseline: str) -> None:
    earned = advantages(rewards, baseline)  # type: ignore[arg-type]
    valid = [reward for reward in rewards if reward is not None]
    if len(valid) < 2 or len(set(valid)) == 1:
        assert is_flat(rewards) and earned == [None] * len(rewards)
        return
    assert [one is None for one in earned] == [reward is None for reward in rewards]
    kept = [one for one in earned if one is not None]
    assert math.isclose(sum(kept), 0, abs_tol=1e-9)
    assert max(kept) == kept[valid.index(max(valid))]
    if baseline == "others":
        others = [*valid[1:]]
        assert math.isclose(kept[0], valid[0] - fmean(others), abs_tol=1e-9)


def attempt(reward: float | None, *, strict: bool = False) -> Attempt:
    rows: tuple[Row, ...] = tuple(make_rows([answer([1], [2, 3])]))
    return Attempt("ep", "task", rows, reward, strict)


def test_rft_imitates_solved_attempts_of_groups_that_also_failed() -> None:
    group = [attempt(1.0, strict=True), attempt(0.5), attempt(None)]
    assert [(row.rl, row.ce) for row in ALGORITHMS["rft"].weigh(group)] == [(0.0, 1.0)]
    assert ALGORITHMS["rft"].weigh([attempt(1.0, strict=True)] * 3) == []
    assert [(row.rl, row.ce) for row in ALGORITHMS["dr-grpo"].weigh(group)] == [(0.25, 0.0), (-0.25, 0.0)]


def test_the_curriculum_prefers_what_is_sometimes_solved() -> None:
    tasks = [f"{name}.1.train.{number}" for name in ("always", "never", "sometimes") for number in range(40)]
    curriculum = Curriculum(tasks, lambda task: task.partition(".")[0], seed=1)
    for name, reward in (("always", 1.0), ("never", 0.0), ("sometimes", 0.5)):
        curriculum.learned(f"{name}.1.train.0", [reward])
    state = curriculum.state()
    drawn = curriculum.draw(40)
    assert sum(task.startswith("sometimes") for task in drawn) > 25
    assert len(set(drawn)) == len(drawn)  # no task twice before all were drawn
    again = Curriculum(tasks, lambda task: task.partition(".")[0], seed=2)
    again.restore(state)
    assert again.draw(40) == drawn
