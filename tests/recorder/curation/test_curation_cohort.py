"""Properties of cohorts for any grades."""

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.cohort import cohort

pytestmark = pytest.mark.unit

stores = st.dictionaries(
    st.sampled_from("abcdef"),
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]), min_size=1, max_size=7),
    min_size=1,
)


def candidates(store: dict[str, list[float]]) -> list[Candidate]:
    return [
        Candidate(
            run=Path("run"), id=f"{task}{n}", task=task, family="f", agent="a", model=None, partial=p, strict=p == 1, calls=1,
            failed_calls=0,
        )
        for task, partials in store.items()
        for n, p in enumerate(partials)
    ]  # fmt: skip


def contrasts(store: dict[str, list[float]]) -> int:
    """Count the pairs of a better and a worse attempt at the same task."""
    total = 0
    for partials in store.values():
        worst = sorted(partials)
        total += sum(worst[-1 - n] > worst[n] for n in range(len(worst) // 2))
    return total


@given(stores, st.data())
def test_cohorts_differ_only_in_grades(store: dict[str, list[float]], data: st.DataObject) -> None:
    available = contrasts(store)
    if not available:
        return
    size, seed = data.draw(st.integers(1, available)), data.draw(st.integers(0, 99))
    high, low, any_ = (cohort(candidates(store), which, size, seed) for which in ("high", "low", "random"))
    assert len(high) == size
    tasks = Counter(one.task for one in high)
    assert tasks == Counter(one.task for one in low) == Counter(one.task for one in any_)
    assert not {one.id for one in high} & {one.id for one in low}
    for task in tasks:
        of_high = sorted((one.partial for one in high if one.task == task), reverse=True)
        of_low = sorted(one.partial for one in low if one.task == task)
        assert of_high == sorted(store[task], reverse=True)[: len(of_high)]
        assert of_low == sorted(store[task])[: len(of_low)]
        assert all(better > worse for better, worse in zip(of_high, of_low, strict=True))


@given(stores, st.randoms())
def test_the_order_of_the_store_does_not_matter(store: dict[str, list[float]], chance: object) -> None:
    available = contrasts(store)
    if not available:
        return
    given_to = candidates(store)
    shuffled = list(given_to)
    chance.shuffle(shuffled)  # type: ignore[attr-defined]
    for which in ("high", "low", "random"):
        ids = {one.id for one in cohort(given_to, which, available, 1)}
        assert ids == {one.id for one in cohort(shuffled, which, available, 1)}


def test_tasks_take_turns() -> None:
    store = {task: [0.0, 0.0, 1.0, 1.0] for task in "abc"}
    assert Counter(one.task for one in cohort(candidates(store), "high", 3, 0)) == {"a": 1, "b": 1, "c": 1}
    assert sorted(Counter(one.task for one in cohort(candidates(store), "high", 5, 0)).values()) == [1, 2, 2]
