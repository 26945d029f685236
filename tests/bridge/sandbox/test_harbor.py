"""Task folders are recorded from the command line: the shipped solution solves them, doing nothing does not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from tests.support.bench_commands import Bench
from tests.support.requirements import needs
from tests.support.task_folders import harbor_task, terminal_bench_task

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]


def recorded(bench: Bench, agent: str, path: Path) -> tuple[int, float]:
    """Record the only task of a folder in place of what was recorded before; return strict and partial."""
    shutil.rmtree(bench.home / "runs", ignore_errors=True)
    bench.run("record", "--agent", agent, "--benchmark", "harbor", "--path", path)
    [row] = bench.grades()
    return row["strict"], row["partial"]


@pytest.mark.parametrize("make", [harbor_task, terminal_bench_task])
def test_the_solution_scores_and_doing_nothing_does_not(bench, tmp_path: Path, make) -> None:
    make(tmp_path / "tasks" / "a")
    assert recorded(bench, "noop", tmp_path / "tasks") == (0, 0)
    assert recorded(bench, "oracle", tmp_path / "tasks") == (1, 1)
    [state] = bench.rows("select final_state from grades", database="grades.db")
    left = {change["path"] for change in json.loads(state["final_state"])["changes"]}
    assert "/app/solution.py" in left
    assert not {"/app/notes.txt", "/tests"} & left


def test_a_task_whose_solution_fails_is_of_no_use(bench, tmp_path: Path) -> None:
    harbor_task(tmp_path / "a", solution__solve_dot_sh="echo double = None >/app/solution.py\n")
    done = bench.run("record", "--agent", "oracle", "--benchmark", f"harbor:{tmp_path}", code=1)
    assert "its own solution" in done.stdout + done.stderr

    terminal_bench_task(tmp_path / "b", solution_dot_yaml="[]\n")  # a solution without commands
    done = bench.run("record", "--agent", "oracle", "--benchmark", f"harbor:{tmp_path / 'b'}", code=1)
    assert "its own solution fails" in done.stdout + done.stderr


def test_a_reward_without_tests_is_read(bench, tmp_path: Path) -> None:
    script = "if [ \"$(cat /app/solution.py)\" = right ]; then r=1; else r=0.25; fi\necho '{\"reward\": '$r'}' >/logs/verifier/reward.json\n"
    harbor_task(
        tmp_path / "a", tests__test_dot_sh=script, solution__solve_dot_sh="echo right >/app/solution.py\n"
    )
    assert recorded(bench, "noop", tmp_path) == (0, 0)
    assert recorded(bench, "oracle", tmp_path) == (1, 1)


def test_a_path_is_for_benchmarks_that_take_one(bench, tmp_path: Path) -> None:
    done = bench.run("record", "--agent", "oracle", "--path", tmp_path, code=2)
    assert "benchmark 'saasworld' has tasks of its own" in done.stderr
