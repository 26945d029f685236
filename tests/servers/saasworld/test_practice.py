"""Families for practice: more to learn from, while train, dev and test stay as they are."""

from itertools import islice

import pytest

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.saasworld import BENCHMARK
from mcp_bench.servers.saasworld.authoring.family import Family, all_families, family
from mcp_bench.servers.saasworld.tasks import build, listing, parse

pytestmark = pytest.mark.component

NUMBERS = range(12)
"""Enough numbers to see every tool that a family's draws lead to."""


def practice() -> list[Family]:
    return [found for found in all_families() if found.practice]


def changing_tools(found: Family, split: str) -> set[str]:
    """Return the tools that change something in the solutions of a family's tasks of level 1."""
    tasks = [build(parse(f"{found.id}.1.{split}.{number}")) for number in NUMBERS]
    return {step.operation.name for task in tasks for step in task.steps if step.writes}


def test_practice_lists_tasks_of_train_of_families_of_its_own() -> None:
    found = list(listing("practice", None))
    assert len(found) == len(set(found)) == 1000
    assert {task.family for task in found} == {family.id for family in practice()}
    assert {task.split for task in found} == {"train"}
    listed = {
        task.family for split in ("all", "train", "dev", "test") for task in islice(listing(split, None), 500)
    }
    assert not listed & {task.family for task in found}


def test_a_task_of_practice_belongs_to_train() -> None:
    (task,) = BENCHMARK.tasks("practice", 1)
    assert task.split == "train" and BENCHMARK.task(task.id) == task
    with pytest.raises(WrongUseError, match="is in train and dev only"):
        BENCHMARK.task(task.id.replace(".train.", ".test."))


def test_practice_changes_nothing_by_the_tools_of_held_out_families() -> None:
    held_out = [found for found in all_families() if found.held_out and 1 in found.levels]
    tested = set().union(*(changing_tools(found, "test") for found in held_out))
    assert len(tested) > 10
    shared = {found.id: both for found in practice() if (both := changing_tools(found, "train") & tested)}
    assert shared == {}


def test_practice_is_of_level_one_in_many_ways() -> None:
    assert {found.levels for found in practice()} == {(1,)}
    tools = [frozenset(changing_tools(found, "train")) for found in practice()]
    assert len(set(tools)) > len(tools) / 2


def test_a_family_for_practice_is_not_held_out() -> None:
    def build_it(_: object) -> None: ...

    build_it.__module__ = practice()[0].build.__module__
    with pytest.raises(ValueError, match="not held out"):
        family(levels=(1,), held_out=True)(build_it)
