"""Policies choose what to try from what the earlier generations brought."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.trainer.improve import generations
from mcp_bench.trainer.improve.policy import Kind, Past, check_policy, choose

pytestmark = pytest.mark.unit

GAIN, LITTLE = Past("harness", True, 0.2, 0.05), Past("harness", True, 0.02, 0.05)
NONE, TRAINED = Past("harness", False, 0.3, 0.05), Past("train", True, 0.2, 0.05)
USELESS = Past("train", False, 0.0, 0.05)
ALL: list[Kind] = ["harness", "train", "rl"]
PAST = st.lists(st.sampled_from([GAIN, LITTLE, NONE, TRAINED, USELESS]), max_size=6)


@pytest.mark.parametrize(
    ("past", "expected"),
    [
        ([], "harness"),
        ([LITTLE], "harness"),
        ([LITTLE, GAIN, NONE], "harness"),
        ([GAIN, LITTLE, NONE], "train"),
        ([NONE, NONE, TRAINED], "train"),
        ([NONE, NONE, USELESS, TRAINED], "train"),
        ([NONE, NONE, USELESS, USELESS], "stop"),
    ],
)
def test_the_rule_goes_on_to_training_and_then_stops(past: list[Past], expected: str) -> None:
    assert choose("rule", past, kinds=ALL, seed=0) == expected


def test_the_rule_stops_where_nothing_can_be_trained() -> None:
    assert choose("rule", [NONE, NONE], kinds=["harness"], seed=0) == "stop"


def test_without_a_harness_left_it_goes_on_to_training() -> None:
    assert choose("rule", [NONE], kinds=["train"], seed=0) == "train"
    assert choose("random", [NONE], kinds=[], seed=0) == "stop"


@given(past=PAST, seed=st.integers())
def test_nothing_is_trained_without_a_recipe(past: list[Past], seed: int) -> None:
    for policy in ("rule", "random", "fixed:harness,stop"):
        assert choose(policy, past, kinds=["harness"], seed=seed) in ("harness", "stop")


@given(past=PAST, seed=st.integers())
def test_random_depends_on_the_seed_and_generation_only(past: list[Past], seed: int) -> None:
    chosen = choose("random", past, kinds=ALL, seed=seed)
    assert chosen == choose("random", [GAIN] * len(past), kinds=ALL, seed=seed)
    assert chosen in ALL


def test_a_sequence_is_followed_and_ends() -> None:
    chosen = [choose("fixed:train,harness", [GAIN] * n, kinds=ALL, seed=0) for n in range(3)]
    assert chosen == ["train", "harness", "stop"]
    assert choose("agent", [], kinds=["harness"], seed=0) == "any"


def test_unknown_policies_are_refused() -> None:
    for policy in ("agent", "random", "fixed:harness,train,rl,stop"):
        check_policy(policy, kinds=ALL)
    for policy in ("rule", "fixed:harness,train,stop"):
        check_policy(policy, kinds=["harness", "train"])
        with pytest.raises(WrongUseError, match="never learns from reward"):
            check_policy(policy, kinds=ALL)
    for policy in ("rul", "fixed:", "fixed:harness,trane", ""):
        with pytest.raises(UnknownNameError):
            check_policy(policy, kinds=ALL)
    with pytest.raises(WrongUseError, match="--recipe"):
        check_policy("fixed:harness,train", kinds=["harness"])
    with pytest.raises(WrongUseError, match="--rl-steps"):
        check_policy("fixed:rl", kinds=["harness", "train"])


def test_a_refused_proposal_says_nothing_about_its_kind() -> None:
    """It was not measured: neither patience nor the policy counts it. Generations do, so it comes to an end."""

    def ended(
        verdicts: list[str], patience: int, action: str = "harness", kinds: set[str] | None = None
    ) -> tuple[str, list[int]]:
        known: list[int] = []

        def generation(number: int, best: object, past: list[Past], earlier: object) -> dict[str, Any]:
            known.append(len(past))
            (set() if kinds is None else kinds).update(one.action for one in past)
            return {"action": action, "verdict": verdicts[number - 1], "why": "", "promoted": False,
                    "difference": 0.0, "error": 0.0}  # fmt: skip

        work: Any = SimpleNamespace(
            settings=SimpleNamespace(generations=len(verdicts), patience=patience),
            generation=generation, report=lambda text: None,
            recordings=SimpleNamespace(spent=dict), folder=SimpleNamespace(store_history=lambda history: None),
        )  # fmt: skip
        history = {"best": {"harness": 0, "weights": 0}, "generations": []}
        return generations._generations(work, history), known

    no = "not promoted"
    assert ended(["refused", no, "refused", no, no], 2) == ("no promotion in 2 generations", [0, 0, 1, 1])
    assert ended(["refused"] * 4, 2) == ("4 generations are done", [0] * 4)
    kinds: set[str] = set()
    assert ended(["nothing to measure"] * 3, 3, "none", kinds)[1] == [0, 1, 2]
    assert kinds == {"harness"}, "leaving the harness as it is was a try to improve it"
