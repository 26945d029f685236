"""Estimates equal direct counts, and intervals have their stated properties."""

import itertools
import random
import statistics

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.scores.statistics import Interval, bootstrap, pass_at_k, pass_hat_k, pass_k

pytestmark = pytest.mark.unit

Task = list[float]  # the scores of its attempts

tasks_of_few_attempts = st.lists(
    st.lists(st.sampled_from([0.0, 0.25, 0.7, 1.0]), min_size=1, max_size=4), min_size=2, max_size=25
)


def interval(tasks: list[Task]) -> Interval:
    found = bootstrap([[sum(task)] for task in tasks], [len(task) for task in tasks])
    assert found is not None
    return found[0]


@settings(max_examples=20, deadline=None)
@given(tasks_of_few_attempts)
def test_an_interval_lies_within_the_tasks_and_repeats(tasks: list[Task]) -> None:
    low, high = interval(tasks)
    means = [statistics.fmean(task) for task in tasks]
    assert min(means) - 1e-9 <= low <= high <= max(means) + 1e-9
    assert interval(tasks) == (low, high)


@settings(max_examples=5, deadline=None)
@given(tasks_of_few_attempts, st.integers())
def test_the_interval_equals_a_plain_bootstrap(tasks: list[Task], seed: int) -> None:
    """A simple loop with another generator gives the same spread."""
    generator, ratios = random.Random(seed), []
    for _ in range(3000):
        drawn = generator.choices(tasks, k=len(tasks))
        ratios.append(statistics.fmean(itertools.chain.from_iterable(drawn)))
    ratios.sort()
    low, high = interval(tasks)
    # the ends lie at 2.5 and 97.5 % of the plain distribution, within the noise of both
    assert sum(r < low - 1e-9 for r in ratios) / 3000 <= 0.04
    assert sum(r <= low + 1e-9 for r in ratios) / 3000 >= 0.012
    assert sum(r > high + 1e-9 for r in ratios) / 3000 <= 0.04
    assert sum(r >= high - 1e-9 for r in ratios) / 3000 >= 0.012


def test_one_task_has_no_interval() -> None:
    assert bootstrap([[0.5]], [1]) is None
    assert bootstrap([], []) is None


def test_the_interval_is_about_tasks_not_episodes() -> None:
    """Ten equal attempts per task give the same interval as one attempt per task."""
    assert interval([[float(n % 2)] * 10 for n in range(4)]) == interval([[float(n % 2)] for n in range(4)])


def test_joint_intervals_equal_separate_intervals() -> None:
    generator = random.Random(3)
    rows = [(generator.random(), generator.random(), generator.randint(1, 4)) for _ in range(50)]
    both = bootstrap([row[:2] for row in rows], [row[2] for row in rows])
    alone = [bootstrap([[row[at]] for row in rows], [row[2] for row in rows]) for at in (0, 1)]
    assert [[found] for found in both or []] == alone


def test_many_tasks_are_drawn_in_batches() -> None:
    """With more draws than a batch or the cache holds, the interval equals the normal approximation."""
    generator = random.Random(4)
    tasks = [[generator.random()] for _ in range(2000)]
    low, high = interval(tasks)
    error = statistics.stdev(task[0] for task in tasks) / 2000**0.5
    mean = statistics.fmean(task[0] for task in tasks)
    assert (low, high) == (
        pytest.approx(mean - 1.96 * error, abs=error / 8),
        pytest.approx(mean + 1.96 * error, abs=error / 8),
    )


def test_intervals_have_the_stated_coverage() -> None:
    generator, covered = random.Random(1), 0
    for _ in range(100):
        tasks = []
        for _ in range(40):
            rate = generator.choice([0.1, 0.5, 0.9])  # tasks differ, which is why they are the unit
            tasks.append([float(generator.random() < rate) for _ in range(3)])
        low, high = interval(tasks)
        covered += low <= 0.5 <= high
    assert 87 <= covered <= 100


@given(st.lists(st.booleans(), min_size=1, max_size=7), st.data())
def test_pass_k_equals_the_share_of_all_k_subsets(attempts: list[bool], data: st.DataObject) -> None:
    k = data.draw(st.integers(1, len(attempts)))
    choices = list(itertools.combinations(attempts, k))
    solved = sum(attempts)
    assert pass_at_k(len(attempts), solved, k) == pytest.approx(sum(map(any, choices)) / len(choices))
    assert pass_hat_k(len(attempts), solved, k) == pytest.approx(sum(map(all, choices)) / len(choices))


@given(st.lists(st.integers(1, 9).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))), max_size=8))
def test_pass_k_of_many_tasks(counts: list[tuple[int, int]]) -> None:
    entries = pass_k(counts)
    most = max((attempts for attempts, _ in counts), default=0)
    if most < 2:
        assert entries == []
        return
    usual = max(k for k in range(1, 10) if 2 * sum(n >= k for n, _ in counts) > len(counts))
    assert [entry.k for entry in entries] == sorted({k for k in (1, 2, 4, 8) if k <= most} | {most, usual})
    for entry in entries:
        enough = [(n, c) for n, c in counts if n >= entry.k]
        assert entry.tasks == len(enough)
        assert entry.pass_at_k == pytest.approx(statistics.fmean(pass_at_k(n, c, entry.k) for n, c in enough))
        assert entry.pass_hat_k == pytest.approx(
            statistics.fmean(pass_hat_k(n, c, entry.k) for n, c in enough)
        )
        assert entry.pass_hat_k <= entry.pass_at_k + 1e-12
        assert (entry.pass_at_k_ci is None) == (len(enough) < 2)


def test_pass_k_has_the_number_of_attempts_that_most_tasks_have() -> None:
    assert [entry.k for entry in pass_k([(3, 1)] * 9 + [(4, 2)])] == [1, 2, 3, 4]
