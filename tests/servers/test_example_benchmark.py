"""The example of docs/benchmarks/own-benchmark.md works, and the page quotes the files that are tested here."""

import importlib.util
import json
import re
from pathlib import Path

import pytest
import yaml

from mcp_bench.servers.mcp_server.world_session import WorldSession
from tests.support import ROOT
from tests.support.bench_commands import Bench
from tests.support.machines.installed_example import install

pytestmark = pytest.mark.system

PAGE = (ROOT / "docs" / "benchmarks" / "own-benchmark.md").read_text()
EXAMPLE = ROOT / "docs" / "examples" / "pantry"


@pytest.fixture
def bench(bench_home: Path, tmp_path: Path) -> Bench:
    path = install(EXAMPLE, tmp_path / "installed")
    return Bench(bench_home, {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"})


def test_example_is_listed_solved_graded_and_exported(bench: Bench, tmp_path: Path) -> None:
    assert "pantry" in bench.run("benchmarks").stdout
    assert len(json.loads(bench.run("tasks", "pantry", "--split", "all", "--json").stdout)) == 100
    bench.run("record", "--agent", "oracle", "--benchmark", "pantry", "--split", "train", "--limit", "20")
    assert [(row["partial"], row["strict"]) for row in bench.grades()] == [(1.0, 1)] * 20
    bench.run("verify")
    bench.run("export", "--out", tmp_path / "train.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    assert {row["benchmark"] for row in rows} == {"pantry"} and len(rows) == 20
    assert "0 of 20 rows leak" in bench.run("leakage", tmp_path / "train.jsonl", "--against", "test").stdout


def test_skipped_calls_lower_credit(bench: Bench) -> None:
    bench.run(
        "record", "--agent", "oracle", "--benchmark", "pantry", "--agent-option", "drop=0.5", "--repeat", "2",
        "--limit", "20",
    )  # fmt: skip
    graded = {row["partial"] for row in bench.grades()}
    assert {0.0, 1.0} < graded


@pytest.mark.anyio
async def test_surplus_orders_lower_credit_and_tools_suffice() -> None:
    spec = importlib.util.spec_from_file_location("pantry_benchmark", EXAMPLE / "pantry_benchmark.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    task = next(module.BENCHMARK.tasks())
    dish, guests = re.findall(r": (\w+) for (\d+)\.", task.prompt)[0]
    session = WorldSession(await module.BENCHMARK.open(task.id))
    recipe = yaml.safe_load((await session.call("recipe", {"dish": dish})).text)
    stock = yaml.safe_load((await session.call("stock", {})).text)
    for item, amount in recipe.items():
        if lacking := amount * int(guests) - stock[item]:
            assert not (await session.call("order", {"item": item, "amount": float(lacking)})).is_error
    assert (await session.world.grade("")).strict
    await session.call("order", {"item": "sugar", "amount": 1})
    grade = await session.world.grade("")
    assert (grade.strict, grade.partial < 1) == (False, True)


def test_page_quotes_the_example_files() -> None:
    for language, name in (("python", "pantry_benchmark.py"), ("toml", "pyproject.toml")):
        block = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)[0]
        assert block == (EXAMPLE / name).read_text()
