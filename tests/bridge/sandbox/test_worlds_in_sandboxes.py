"""Worlds that work in a sandbox: what it enforces is stored, the grade is found in a fresh one."""

from __future__ import annotations

import json

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]


@pytest.mark.parametrize("benchmark", ["box", "box-remote"])
def test_the_oracle_solves_a_task_in_a_sandbox(bench, benchmark: str) -> None:
    bench.run("record", "--agent", "oracle", "--benchmark", benchmark)
    [grade] = bench.grades()
    assert grade["strict"] == 1
    [state] = bench.rows("select final_state from grades", database="grades.db")
    assert json.loads(state["final_state"])["files"] == ["/check", "/work", "/work/answer"]
    [episode] = bench.rows("select id, probes from episodes")
    sandbox = json.loads(episode["probes"])["sandbox-1"]
    assert (sandbox["engine"], sandbox["network"], sandbox["passed"]) == ("bwrap", "none", True)
    shown = bench.run("show", episode["id"]).stdout
    assert "asks for its sandbox when it opens" in shown


def test_a_run_says_that_no_sandbox_works_here(bench) -> None:
    bench.environ["PATH"] = "/nowhere"
    done = bench.run("record", "--agent", "oracle", "--benchmark", "box", code=1)
    assert "no sandbox can be started here. bwrap" in done.stderr


@pytest.mark.parametrize("command", [["record", "--agent", "noop", "--benchmark", "box"], ["doctor"]])
def test_a_limit_of_kept_layers_that_is_no_number_is_named_at_once(bench, command: list[str]) -> None:
    bench.environ["MCP_BENCH_LAYERS_MIB"] = "4 GiB"
    done = bench.run(*command, code=None)
    assert done.returncode in (1, 2)
    said = " ".join((done.stdout + done.stderr).split())
    assert "$MCP_BENCH_LAYERS_MIB is '4 GiB': give a number of MiB" in said
    assert not list((bench.home / "runs").glob("run_*"))
