"""Benchmarks over real MCP: the oracle reaches par in every game that has a solution, doing nothing passes none."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.servers.adapters.remotes import (
    BFCL,
    GYMNASIUM,
    MINIGRID,
    REASONING_GYM,
    SCIENCEWORLD,
    TAU2,
    TEXTARENA,
)
from tests.support.bench_commands import Bench
from tests.support.requirements import needs

pytestmark = pytest.mark.system

REMOTE = {one.name: one for one in (BFCL, GYMNASIUM, MINIGRID, REASONING_GYM, SCIENCEWORLD, TAU2, TEXTARENA)}
HOURS = 3 * 3600.0
"""How many seconds a sweep may take."""
SAMPLE = {
    "game-2048": "2048.1 2048.101 2048.201",
    "gymnasium": "frozen-lake.1 taxi.101 frozen-lake-slippery.39",
    "minigrid": "GoToLocal.1 UnlockPickup.1 GoToLocal.101",
    "reasoning-gym": "",
    "saasworld": "simple-candidate-stage.1.train.0 finance-budget-limits.1.train.0",
    "scienceworld": "lifespan-longest-lived.93",
    "tau2": "",
    "tetris": "tetris.1 tetris.101 tetris.201",
    "textarena": "nim.1 mastermind.1 connect-four.2",
}
"""Tasks of several splits. Without names, the first ones of `test`. AgentDojo's sample is in test_agentdojo.py."""
SWEEPS = [
    ("agentdojo", ["--split", "all"], 92),
    ("saasworld", ["--split", "test", "--limit", "300"], 300),
    ("reasoning-gym", ["--split", "test"], 240),
    ("reasoning-gym", ["--split", "dev"], 360),
    ("tau2", ["--tag", "telecom-solo", "--split", "all"], 114),
    *(
        (name, ["--split", "all"], 100)
        for name in ("game-2048", "tetris", "gymnasium", "minigrid", "textarena")
    ),
    ("scienceworld", ["--split", "test"], 100),  # the simulator takes seconds to make a gold path
]
"""The least number of episodes with each. BFCL's sweep is in test_bfcl.py; the customers of tau2 are models."""
SLOW = ("scienceworld",)
"""Not in the sample of every run: Java takes seconds to start."""


def marked(name: str, *values: Any, full: bool = True) -> Any:
    missing = REMOTE[name].missing() if name in REMOTE else None
    marks = [needs(name, missing is None, str(missing)), *([pytest.mark.full] if full else [])]
    return pytest.param(name, *values, marks=marks, id=" ".join((name, *(values[0] if values else ()))))


def played(bench_home: Path, agent: str, benchmark: str, *chosen: str) -> dict[str, Any]:
    environ = {one.python_variable: one.python for one in REMOTE.values() if one.name == benchmark}
    done = Bench(bench_home, environ).run(
        "record", "--agent", agent, "--benchmark", benchmark, *chosen, "--jobs", "2", "--json", timeout=HOURS
    )
    totals: dict[str, Any] = json.loads(done.stdout)
    return totals


@pytest.mark.parametrize("benchmark", [marked(name, full=name in SLOW) for name in SAMPLE])
def test_doing_nothing_passes_no_task_of_a_sample(bench_home: Path, benchmark: str) -> None:
    tasks = SAMPLE[benchmark].split()
    chosen = [word for task in tasks for word in ("--task", task)]
    first = ["--limit", "3", *(["--tag", "telecom-solo"] if benchmark == "tau2" else [])]
    totals = played(bench_home, "noop", benchmark, *(chosen or first))
    assert totals["episodes"] == (len(tasks) or 3)
    assert (totals["invalid"], totals["strict"], totals["partial"]) == (0, 0.0, 0.0)


@pytest.mark.parametrize(("benchmark", "chosen", "least"), [marked(*sweep) for sweep in SWEEPS])
def test_the_oracle_solves_every_task(
    bench_home: Path, benchmark: str, chosen: list[str], least: int
) -> None:
    totals = played(bench_home, "oracle", benchmark, *chosen)
    assert totals["episodes"] >= least
    assert (totals["invalid"], totals["strict"], totals["partial"]) == (0, 1.0, 1.0)


@pytest.mark.parametrize(("benchmark", "chosen", "least"), [marked(*sweep) for sweep in SWEEPS])
def test_doing_nothing_passes_no_task(
    bench_home: Path, benchmark: str, chosen: list[str], least: int
) -> None:
    totals = played(bench_home, "noop", benchmark, *chosen)
    assert totals["episodes"] >= least
    assert (totals["invalid"], totals["strict"], totals["partial"]) == (0, 0.0, 0.0)
