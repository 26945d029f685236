"""Tasks are selected by tag, lazily."""

from collections.abc import Iterable
from itertools import count

import pytest

from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from mcp_bench.servers.sdk import SimpleBenchmark, SimpleWorld, Task
from mcp_bench.servers.tagged import tagged, whole_list

pytestmark = pytest.mark.unit


class Numbers(SimpleBenchmark):
    """Endless tasks, of which every second one is even. The fourth cannot be made."""

    name = "numbers"
    splits = ("train",)

    def ids(self, split: str) -> Iterable[str]:
        return map(str, count())

    def make_task(self, task_id: str) -> Task | None:
        if task_id == "4":
            raise KeyError("row 4")
        tags = ("odd",) if int(task_id) % 2 else ("even",)
        return Task(id=task_id, benchmark="numbers", prompt="Count.", split="train", domain="", tags=tags)

    def make_world(self, task_id: str, seed: int) -> SimpleWorld:
        raise NotImplementedError


class Without4(Numbers):
    """All of them can be made."""

    def ids(self, split: str) -> Iterable[str]:
        return map(str, count(5))


def test_tasks_with_all_tags_are_taken_up_to_the_limit() -> None:
    assert [task.id for task in tagged(Numbers(), "train", ["odd"], 1)] == ["1"]
    assert list(tagged(Numbers(), "train", ["even"], 0)) == []
    with pytest.raises(UnknownNameError, match="split"):
        tagged(Numbers(), "test", [])


def test_a_task_that_fails_is_not_the_end_of_the_list() -> None:
    tasks = tagged(Numbers(), "train", [], 6)
    assert [next(tasks).id for _ in range(4)] == ["0", "1", "2", "3"]
    with pytest.raises(KeyError):
        next(tasks)
    assert [task.id for task in tasks] == ["5"]


def test_a_benchmark_without_the_split_test_lists_its_first() -> None:
    assert next(Numbers().tasks()).split == "train"


def test_a_tag_that_no_task_has_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="tag 'prime'"):
        tagged(Without4(), "train", ["prime"], 2)


def test_tags_that_no_task_has_together_are_refused() -> None:
    """A list without an end would be searched without an end."""
    with pytest.raises(WrongUseError, match="no task in split 'train' with the tags even, odd"):
        tagged(Without4(), "train", ["even", "odd"], 1)


def test_a_limit_is_asked_for_before_the_tasks_of_an_endless_split_are_made() -> None:
    made = []

    class Endless(Without4):
        endless_splits = ("train",)

        def make_task(self, task_id: str) -> Task | None:
            made.append(task_id)
            return super().make_task(task_id)

    source = Endless()
    assert len(whole_list(tagged(source, None, [], 2), source, None, 2)) == 2
    with pytest.raises(WrongUseError, match="without end in split 'train': use --limit N"):
        whole_list(tagged(source, None, []), source, None, None)
    assert len(made) == 3
