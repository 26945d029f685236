"""Benchmarks whose worlds work in containers: their shipped solutions are graded there, and verified."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from tests.support.bench_commands import Bench
from tests.support.machines.sandbox_engines import engine
from tests.support.requirements import skip
from tests.support.task_folders import harbor_task

pytestmark = pytest.mark.system
TASKS = {
    "codeworld": ("--task", "access-log.1.dev.0"),
    "mle": ("--task", "delivery-times.test.0"),
    "proofs": ("--task", "logic"),
}


@pytest.mark.parametrize("name", ["podman", "docker"])
@pytest.mark.parametrize(
    "benchmark", ["harbor", *(pytest.param(one, marks=pytest.mark.full) for one in TASKS)]
)
def test_a_solution_is_graded_in_a_container(bench: Bench, tmp_path: Path, name: str, benchmark: str) -> None:
    """The same calls serve all worlds; hidden tests use most of them."""
    sound = not engine(name).support().advice
    if benchmark == "proofs" and shutil.which("coqchk") is None:
        skip("coq", "there is no coqc (Debian: apt-get install coq)")
    if benchmark == "harbor":
        chosen: tuple[str | Path, ...] = ("--path", harbor_task(tmp_path / "tasks" / "a"))
    else:
        chosen = TASKS[benchmark]
    if place := os.environ.get("DOCKER_HOST"):
        bench.environ["DOCKER_HOST"] = place
    bench.run("record", "--agent", "oracle", "--benchmark", benchmark, "--sandbox", name, *chosen)
    assert [(row["strict"], row["partial"]) for row in bench.grades()] == [(1, 1)]
    [episode] = bench.rows("select probes from episodes")
    probes = json.loads(episode["probes"])
    sandboxes = [probes[key] for key in probes if key.startswith("sandbox-")]
    assert {(one["engine"], one["passed"]) for one in sandboxes} == {(name, sound)}
