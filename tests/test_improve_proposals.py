"""The scripted proposer of `benchmarks/learning/improve_drivers.py`: what it changes in each task."""

from __future__ import annotations

import importlib
from random import Random
from typing import Any

import pytest

from mcp_bench.servers.improve.benchmark import Improve
from tests.support import ROOT

pytestmark = pytest.mark.unit
TASKS = Improve().folders
NAMES = sorted(name for name in TASKS if not name.endswith("-gpu"))
BROKEN = "\n("
"""The end of a proposal that is no program."""


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.syspath_prepend(ROOT / "benchmarks" / "learning")
    found: dict[str, Any] = importlib.import_module("improve_proposals").CHANGES
    return found


def proposals(changes: Any, baseline: str, walks: int, steps: int) -> set[str]:
    """Return what is proposed in walks from the baseline. A broken one is not gone on with."""
    found = set()
    for seed in range(walks):
        rng, version = Random(seed), baseline
        for _ in range(steps):
            proposed = changes.proposed(version, rng)
            assert proposed != version
            found.add(proposed)
            version = version if proposed.endswith(BROKEN) else proposed
    return found


def is_program(task: str, text: str) -> bool:
    """Return whether a target can be run at all."""
    [path] = TASKS[task].baseline
    if path.endswith(".txt"):
        return "{input}" in text
    if path.endswith(".sql"):
        return not text.endswith(BROKEN)
    try:
        compile(text, path, "exec")
    except SyntaxError:
        return False
    return True


def test_each_task_has_proposals(changes: dict[str, Any]) -> None:
    assert sorted(changes) == NAMES


@pytest.mark.parametrize("task", NAMES)
def test_a_proposal_is_a_program_or_broken(changes: dict[str, Any], task: str) -> None:
    [baseline] = TASKS[task].baseline.values()
    [reference] = TASKS[task].reference.values()
    found = proposals(changes[task], baseline, 20, 12)
    for text in found:
        assert is_program(task, text) != text.endswith(BROKEN), text
        assert len(text.encode()) <= TASKS[task].definition.max_bytes
    # by one change at a time, nobody gets far from the start at once
    assert reference not in proposals(changes[task], baseline, 50, 1)


@pytest.mark.parametrize("task", ["alignment", "templates"])
def test_proposals_answer_as_the_baseline_does(changes: dict[str, Any], task: str) -> None:
    [baseline] = TASKS[task].baseline.values()
    settings = {"length": 40, "pairs": 3, "templates": 3, "values": 3}
    asked = [TASKS[task].scorer.question(Random(seed), "search", settings) for seed in range(3)]

    def answers(text: str) -> list[Any]:
        space: dict[str, Any] = {}
        exec(compile(text, task, "exec"), space)
        return [space["solve"](*arguments) for arguments in asked]

    right = answers(baseline)
    found = [text for text in proposals(changes[task], baseline, 20, 12) if not text.endswith(BROKEN)]
    assert len(found) > 10
    for text in found:
        assert answers(text) == right, text
