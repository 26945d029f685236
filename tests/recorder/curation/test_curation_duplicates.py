"""Exact and near duplicates, checked against a comparison of all pairs."""

import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.duplicates import fingerprint, gist, without_exact, without_near
from mcp_bench.recorder.leakage.similarity import signature
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Trajectory

pytestmark = pytest.mark.unit

WORDS = [f"word{n}" for n in range(200)]


def words(count: int, seed: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


def edited(text: list[str], share: float, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [chance.choice(WORDS) if chance.random() < share else word for word in text]


def candidate(name: str, text: str, partial: float = 1.0) -> Candidate:
    return Candidate(
        run=Path("run"), id=name, task="t", family="f", agent="a", model=None, partial=partial, strict=partial == 1, calls=1,
        failed_calls=0, signature=signature(text),
    )  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.5, 0.8, 0.95]))
def test_the_index_keeps_the_same_as_all_pairs(seed: int, threshold: float) -> None:
    chance = random.Random(seed)
    originals = [words(chance.randint(1, 80), seed + n) for n in range(6)]
    texts = [
        " ".join(edited(chance.choice(originals), chance.choice([0, 0.02, 0.1, 0.3]), n)) for n in range(40)
    ]
    given_to = [candidate(f"e{n:02}", text, chance.choice([0.5, 1.0])) for n, text in enumerate(texts)]
    kept: list[Candidate] = []
    for one in sorted(given_to, key=lambda c: (-c.partial, c.id)):
        if all(float((one.signature == other.signature).mean()) < threshold for other in kept):
            kept.append(one)
    assert {one.id for one in without_near(given_to, threshold)} == {one.id for one in kept}


def trajectory(**changes: object) -> Trajectory:
    call = ToolCall(id=str(changes.get("call_id", "c1")), function=FunctionCall(name="send", arguments={"a": 1, "b": changes.get("b", 2)}))  # fmt: skip
    return Trajectory(
        id=str(changes.get("id", "ep")), benchmark="b", task="t", split="train", domain="d", agent="x", seed=0,
        isolation="none", tools=[],
        messages=[
            Message(role="user", content="Please send it."),
            Message(role="assistant", reasoning=str(changes.get("thought", "hm")), tool_calls=[call]),
            Message(role="tool", tool_call_id=call.id, name="send", content=str(changes.get("result", "sent"))),
            Message(role="assistant", content=str(changes.get("answer", "Done."))),
        ],
    )  # fmt: skip


def test_a_fingerprint_depends_on_the_conversation() -> None:
    whole = fingerprint(trajectory())
    assert fingerprint(trajectory(call_id="other", id="ep2")) == whole
    for change in ({"b": 3}, {"b": "2"}, {"result": "no"}, {"answer": "Sent."}, {"thought": "so"}):
        assert fingerprint(trajectory(**change)) != whole, change


def test_a_gist_has_prompt_calls_and_answer() -> None:
    assert gist(trajectory()) == 'Please send it.\n[["send", {"a": 1, "b": 2}]]\nDone.'
    assert gist(trajectory(result="long", thought="deep")) == gist(trajectory())


def test_the_best_of_several_duplicates_is_kept() -> None:
    alike = [candidate("a", "same", 0.5), candidate("b", "same", 1.0), candidate("c", "same", 1.0)]
    for one in alike:
        one.fingerprint = b"same"
    assert [one.id for one in without_exact(alike)] == ["b"]
    assert [one.id for one in without_near(alike, 0.8)] == ["b"]
