"""Shingles and MinHash estimates, against the exact sets of words."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.leakage.similarity import SimilarTexts, shingles, signature, similarity

pytestmark = pytest.mark.unit

WORDS = [f"word{n}" for n in range(200)]


def words(count: int, seed: int) -> list[str]:
    return random.Random(seed).choices(WORDS, k=count)


def edited(text: list[str], share: float, seed: int) -> list[str]:
    chance = random.Random(seed)
    return [chance.choice(WORDS) if chance.random() < share else word for word in text]


def jaccard(left: str, right: str) -> float:
    ours, theirs = (set(shingles(text).tolist()) for text in (left, right))
    return len(ours & theirs) / len(ours | theirs)


@given(st.lists(st.sampled_from("abcdefghij"), min_size=1, max_size=60), st.data())
def test_shingles_are_the_runs_of_five_words(words: list[str], data: st.DataObject) -> None:
    other = data.draw(st.permutations(words)) if data.draw(st.booleans()) else words[:-1] or ["z"]

    def runs(text: list[str]) -> set[tuple[str, ...]]:
        return {tuple(text[at : at + 5]) for at in range(max(1, len(text) - 4))}

    exact = len(runs(words) & runs(other)) / len(runs(words) | runs(other))
    assert jaccard(" ".join(words), " ".join(other)) == pytest.approx(exact)


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 10_000), st.floats(0, 0.3))
def test_signatures_estimate_the_jaccard_similarity(seed: int, share: float) -> None:
    text = words(300, seed)
    one, other = " ".join(text), " ".join(edited(text, share, seed + 1))
    estimate = similarity(signature(one), signature(other))
    assert estimate == pytest.approx(jaccard(one, other), abs=5 * 0.044)


def test_estimates_have_no_bias() -> None:
    pairs = [(text := words(200, seed), edited(text, 0.05, seed)) for seed in range(300)]
    estimates = [similarity(signature(" ".join(a)), signature(" ".join(b))) for a, b in pairs]
    exact = [jaccard(" ".join(a), " ".join(b)) for a, b in pairs]
    assert sum(estimates) / 300 == pytest.approx(sum(exact) / 300, abs=0.01)


def test_the_index_finds_every_text_again() -> None:
    """With more texts than the first block of memory holds."""
    texts = SimilarTexts(0.8)
    signatures = [signature(" ".join(words(60, seed))) for seed in range(1500)]
    for number, one in enumerate(signatures):
        assert texts.most_similar(one) is None
        texts.add(str(number), one)
    assert [texts.most_similar(signatures[n]) for n in (0, 1023, 1024, 1499)] == [
        ("0", 1.0), ("1023", 1.0), ("1024", 1.0), ("1499", 1.0),
    ]  # fmt: skip
