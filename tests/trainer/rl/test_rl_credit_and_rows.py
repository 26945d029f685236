"""Rows of exact tokens, advantages of groups, and the weights that algorithms give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.trainer.rl import rollout_rows
from mcp_bench.trainer.rl.credit.algorithms import ALGORITHMS, Attempt
from mcp_bench.trainer.rl.credit.groups import advantages, is_flat
from mcp_bench.trainer.rl.credit.tokens import Row, Sampled, make_rows
from mcp_bench.trainer.rl.curriculum import Curriculum

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


def test_answers_that_a_limit_cut_off_are_not_learned_from() -> None:
    """Wherever they are: first, between others, or alone in a row."""
    cut = answer([1], [2, 3], cut=True)
    [row] = make_rows([cut, answer([1, 2, 3, 4], [5]), answer([1, 2, 3, 4, 5, 6], [7], cut=True)])
    assert row.tokens.tolist() == [1, 2, 3, 4, 5, 6, 7]
    assert row.sampled.tolist() == [False, False, False, False, True, False, False]
    assert row.logprobs.tolist() == [0, 0, 0, 0, -0.5, 0, 0]
    assert make_rows([cut]) == []


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


@dataclass
class Recording:
    """Stands in for a stored run: its attempts."""

    attempts: list[Attempt]

    def episodes(self) -> list[SimpleNamespace]:
        return [SimpleNamespace(run="run_1", attempt=attempt) for attempt in self.attempts]


def test_rollouts_have_the_fields_of_other_trainers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test of the schema: names, types and lengths as in prime-rl and verl, which are not installed here."""
    monkeypatch.setattr(rollout_rows, "read_attempt", lambda reader, episode: episode.attempt)
    turns = [answer([1], [2, 3]), answer([1, 2, 3, 4], [5])]
    made = tuple(make_rows(turns))
    attempts = [Attempt("a", "t", made, 1.0, calls=1), Attempt("b", "t", made, 0.0), attempt(None)]
    reader: Any = Recording(attempts)

    def rows(form: Any) -> list[dict[str, Any]]:
        return list(rollout_rows.rollout_rows([reader], form, baseline="mean", temperature=0.7))

    good, bad = rows("prime-rl")  # an invalid attempt is none
    assert good == {
        "token_ids": [1, 2, 3, 4, 5], "mask": [False, True, True, False, True],
        "logprobs": [0, -0.5, -0.5, 0, -0.5], "temperatures": [0.7] * 5, "env_name": "t",
        "advantages": [0, 0.5, 0.5, 0, 0.5],
    }  # fmt: skip
    assert bad["advantages"] == [0, -0.5, -0.5, 0, -0.5]
    assert rows("verl")[0] == {
        "prompt_ids": [1], "response_ids": [2, 3, 4, 5], "response_mask": [1, 1, 0, 1],
        "response_logprobs": [-0.5, -0.5, 0, -0.5], "reward_score": 1.0, "num_turns": 2, "metrics": {},
        "extra_fields": {"uid": "run_1/t", "episode": "a"},
    }  # fmt: skip


def test_rft_imitates_solved_attempts_each_with_its_share_of_the_task() -> None:
    rft, solved = ALGORITHMS["rft"], attempt(1.0, strict=True)
    group = [solved, attempt(0.5), attempt(None)]
    assert [(row.rl, row.ce, row.scale) for row in rft.weigh(group)] == [(0.0, 1.0, 1.0)]
    assert [(row.ce, row.scale) for row in rft.weigh([solved] * 4)] == [(1.0, 0.25)] * 4
    unsolved, tainted = [attempt(0.5), attempt(0.0)], [attempt(None, strict=True)]
    assert [rft.is_flat(one) for one in (group, [solved] * 4, unsolved, tainted)] == [
        False,
        False,
        True,
        True,
    ]
    assert rft.weigh(unsolved) == rft.weigh(tainted) == []
    assert [(row.rl, row.ce) for row in ALGORITHMS["dr-grpo"].weigh(group)] == [(0.25, 0.0), (-0.25, 0.0)]


def test_another_model_teaches_with_any_valid_attempt() -> None:
    """So `opd` does not replace groups whose attempts all earned the same."""
    same, invalid = [attempt(0.0)] * 3, [attempt(None)] * 3
    assert [ALGORITHMS["opd"].is_flat(group) for group in (same, invalid)] == [False, True]
    assert [ALGORITHMS["grpo"].is_flat(group) for group in (same, [attempt(0.0), attempt(1.0)])] == [
        True,
        False,
    ]
    assert ALGORITHMS["sdpo"].is_flat(same)


@given(REWARDS)
def test_attempts_below_the_mean_can_count_less(rewards: list[float | None]) -> None:
    group = [attempt(reward) for reward in rewards]
    plain, less = (ALGORITHMS["grpo"].weigh(group, below=below) for below in (1.0, 0.25))
    assert [one.rl for one in less] == [one.rl if one.rl > 0 else one.rl / 4 for one in plain]


@given(REWARDS)
def test_an_anchor_holds_valid_attempts_of_flat_groups_too(rewards: list[float | None]) -> None:
    group = [attempt(reward) for reward in rewards]
    plain, held = (ALGORITHMS["grpo"].weigh(group, anchored=anchored) for anchored in (False, True))
    assert sum(len(one.rows) for one in group if one.reward is not None) == len(held)
    assert [one for one in held if one.rl] == [one for one in plain if one.rl]
    assert not is_flat(rewards) or not plain


@given(REWARDS)
def test_solved_attempts_are_imitated_beside_their_advantage(rewards: list[float | None]) -> None:
    group = [attempt(reward, strict=reward == 1) for reward in [*rewards, None]]
    plain, both = (ALGORITHMS["grpo"].weigh(group, imitate=imitate) for imitate in (0.0, 0.3))
    assert sum(one.ce == 0.3 for one in both) == rewards.count(1)
    assert sum(one.ce == 0 for one in both) == (0 if is_flat(rewards) else len(plain) - rewards.count(1))
    assert [one.rl for one in both if one.rl] == [one.rl for one in plain if one.rl]


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


def test_families_of_one_task_fill_a_step_too() -> None:
    """A task is drawn once, and what the step has tried is left out."""
    tasks = [f"user_task_{number}" for number in range(20)]
    curriculum = Curriculum(tasks, lambda task: task, seed=1)
    curriculum.learned(tasks[0], [0.5])  # drawn more often than the others
    first = curriculum.draw(8)
    second = curriculum.draw(8, first)
    assert len({*first, *second}) == 16
    assert set(curriculum.draw(8, [*first, *second])) == {*tasks} - {*first, *second}
    assert curriculum.draw(8, tasks) == []
