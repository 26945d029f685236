"""Every listed game over real MCP: the oracle reaches par in all that have a solution, doing nothing in none."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.servers.adapters.remotes import GYMNASIUM, MINIGRID, SCIENCEWORLD, TEXTARENA
from tests.support.bench_commands import Bench
from tests.support.requirements import needs

pytestmark = [
    pytest.mark.system,
    pytest.mark.full,
]  # thousands of episodes; a sample is in test_step_benchmarks

GAMES = [
    *(pytest.param(name, "all", id=name) for name in ("game-2048", "tetris")),
    *(
        # the simulator takes seconds to make a gold path
        pytest.param(
            one.name,
            "test" if one is SCIENCEWORLD else "all",
            id=one.name,
            marks=needs(one.name, one.missing() is None, str(one.missing())),
        )
        for one in (GYMNASIUM, MINIGRID, SCIENCEWORLD, TEXTARENA)
    ),
]


def played(bench_home: Path, agent: str, benchmark: str, split: str) -> dict[str, Any]:
    done = Bench(bench_home).run(
        "record", "--agent", agent, "--benchmark", benchmark, "--split", split, "--jobs", "2", "--json"
    )
    totals: dict[str, Any] = json.loads(done.stdout)
    return totals


@pytest.mark.parametrize(("benchmark", "split"), GAMES)
def test_the_oracle_reaches_par_in_every_game(bench_home: Path, benchmark: str, split: str) -> None:
    totals = played(bench_home, "oracle", benchmark, split)
    assert totals["episodes"] >= 100
    assert (totals["invalid"], totals["strict"], totals["partial"]) == (0, 1.0, 1.0)


@pytest.mark.parametrize(("benchmark", "split"), GAMES)
def test_doing_nothing_earns_nothing_in_any_game(bench_home: Path, benchmark: str, split: str) -> None:
    totals = played(bench_home, "noop", benchmark, split)
    assert (totals["invalid"], totals["strict"], totals["partial"]) == (0, 0.0, 0.0)
