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
