"""Scores of reasoning-gym's answers, with a stand-in for its package: no answer fits all puzzles."""

import importlib
import math
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.unit

NAME = "mcp_bench.servers.adapters.reasoning_gym"


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The adapter, above a package that has no generators."""
    package, factory = ModuleType("reasoning_gym"), ModuleType("reasoning_gym.factory")
    vars(factory)["DATASETS"] = {}
    monkeypatch.setitem(sys.modules, package.__name__, package)
    monkeypatch.setitem(sys.modules, factory.__name__, factory)
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    yield importlib.import_module(NAME)
    sys.modules.pop(NAME, None)


def scored(adapter: Any, generator: str, verifier: Any, stored: str, answer: str) -> float:
    data = SimpleNamespace(score_answer=verifier)
    score: float = adapter.Puzzle(generator, data, {"question": "?", "answer": stored}).score(answer)
    return score


def by_distance(answer: str, entry: dict[str, Any]) -> float:
    """Scores complex numbers as upstream does."""
    given, right = (complex(text.replace(" ", "")) for text in (answer, entry["answer"]))
    return min(1.0, math.exp(-abs(given - right)))


def test_what_is_no_number_earns_nothing(adapter: Any) -> None:
    """In upstream's comparisons, NaN is near everything."""
    assert by_distance("nan", {"answer": "3"}) == 1
    for answer in ("nan", "nanj", "NaN", "n a n"):
        assert scored(adapter, "complex_arithmetic", by_distance, "3-4j", answer) == 0
    assert scored(adapter, "complex_arithmetic", by_distance, "3-4j", "3-4j") == 1
    assert scored(adapter, "word_sorting", lambda *_: 1.0, "apple, nan", "apple, nan") == 1


@pytest.mark.parametrize("score", [math.nan, math.inf])
def test_a_score_that_is_no_number_earns_nothing(adapter: Any, score: float) -> None:
    assert scored(adapter, "gcd", lambda *_: score, "3", "4") == 0


def test_probabilities_are_compared_as_numbers(adapter: Any) -> None:
    """Upstream compares how they begin, and works out any exponent."""

    def never(*_: Any) -> float:
        raise AssertionError("upstream's verifier is not asked")

    for answer, score in (("0", 0), ("1e8000000", 0), ("0.25", 1), ("1/4", 1)):
        assert scored(adapter, "coin_flip", never, "0.25", answer) == score


def test_24_is_made_of_the_puzzles_own_numbers(adapter: Any) -> None:
    """Upstream takes any four numbers."""
    for answer, score in (("8*(4 - 6/2 + 2)", 1), ("6*4*1*1", 0), ("(8+4)*(6/2) - 12", 0), ("8+4+6+2", 0)):
        assert scored(adapter, "puzzle24", lambda *_: 1.0, "8*(4-6/2+2)", answer) == score, answer


def test_sorted_numbers_are_those_that_were_given(adapter: Any) -> None:
    """Upstream lets each be one off."""
    stored = "['-91.9', '-72.0', '97.45']"
    for answer, score in (("[-91.9, -72, 97.45]", 1), (stored, 1), ("[-91.0, -71.1, 98.35]", 0), ("[]", 0)):
        assert scored(adapter, "number_sorting", lambda *_: 1.0, stored, answer) == score, answer


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("generator", "answer", "score", "strict"),
    [
        ("time_intervals", "6 days", 0.99, False),
        ("time_intervals", "5 days\n", 0.98, True),
        ("time_intervals", "5 days", 1.0, True),
        ("complex_arithmetic", "3.0-4j", 0.995, True),
    ],
)
async def test_nearly_right_is_wrong_where_numbers_are_exact(
    adapter: Any, generator: str, answer: str, score: float, strict: bool
) -> None:
    data = SimpleNamespace(score_answer=lambda *_: score)
    world = adapter.PuzzleWorld(adapter.Puzzle(generator, data, {"question": "?", "answer": "5 days"}))
    assert (await world.grade(answer)).strict == strict
