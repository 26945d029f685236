"""The tables of docs/benchmarks/elsewhere.md: numbers of tasks, tools and licences are those of the benchmarks themselves."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.registry import load
from tests.support.requirements import needs

pytestmark = [pytest.mark.component, pytest.mark.anyio]

PAGE = Path(__file__).parents[2] / "docs" / "benchmarks" / "elsewhere.md"
ENDLESS = 1500
QUICK = ("agentdojo", "game-2048", "tetris")
"""The others start a worker and make thousands of games."""


HEADS = (
    "| benchmark | tasks in train, dev, test | tools of a task |",
    "| benchmark | oracle over MCP, strict |",
)


def rows() -> Iterator[dict[str, str]]:
    """Yield the rows of the two tables that have a row for each benchmark."""
    head: list[str] = []
    for line in PAGE.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("| ").split(" | ")]
        if line.startswith(HEADS):
            head = cells
        elif not line.startswith("|"):
            head = []
        elif head and (name := re.fullmatch(r"`([\w-]+)`", cells[0])):
            yield dict(zip(head, cells, strict=True)) | {"benchmark": name[1]}


FACTS: dict[str, dict[str, str]] = {}
for row in rows():
    FACTS.setdefault(row["benchmark"], {}).update(row)


def benchmark_of(name: str) -> Any:
    return load("benchmark", name)


def row_of(name: str) -> Any:
    found = benchmark_of(name)
    missing = found.missing() if hasattr(found, "missing") else None
    full = [] if name in QUICK else [pytest.mark.full]
    return pytest.param(name, id=name, marks=[needs(name, missing is None, str(missing)), *full])


def test_the_tables_have_the_same_benchmarks() -> None:
    assert len(FACTS) >= 10
    for name, facts in FACTS.items():
        assert {"tasks in train, dev, test", "licence"} <= facts.keys(), name


@pytest.mark.parametrize("name", [row_of(name) for name in FACTS])
async def test_numbers_of_tasks_and_verdicts_are_right(name: str) -> None:
    benchmark = benchmark_of(name)
    counts, asked, free = [], False, False
    for split in ("train", "dev", "test"):
        try:
            tasks = list(islice(benchmark.tasks(split), ENDLESS + 1))
        except UnknownNameError:  # it has no such split
            tasks = []
        counts.append("endless" if len(tasks) > ENDLESS else f"{len(tasks):,}" if tasks else "-")
        asked |= any(task.needs for task in tasks)
        free |= any(not task.needs for task in tasks)
    if hasattr(benchmark, "aclose"):
        await benchmark.aclose()
    facts = FACTS[name]
    assert ", ".join(counts) == facts["tasks in train, dev, test"]
    verdict = "certain in" if asked and free else "a model" if asked else "certain"
    assert facts["verdict"].startswith(verdict)


@pytest.mark.parametrize("name", FACTS)
def test_licences_are_those_of_the_benchmarks(name: str) -> None:
    assert FACTS[name]["licence"] == (getattr(benchmark_of(name), "licence", "") or "ours")
