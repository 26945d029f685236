"""`mcp-bench check-benchmark` finds what makes grades and training data wrong."""

import json
import signal
import tempfile
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from tests.support import ROOT
from tests.support.bench_commands import Bench
from tests.support.machines.installed_example import install
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = pytest.mark.system

FLAWED = """
import os
from itertools import count
from pathlib import Path

from mcp_bench.servers.home import home
from mcp_bench.servers.sdk import (
    AssertionResult, Reference, SimpleBenchmark, SimpleWorld, Task, ToolCall, ToolResult, ToolSpec
)

WORLDS = count()
NOTHING = {"type": "object", "properties": {}, "additionalProperties": False}
PUSH = ToolSpec(name="push", description="Push.", input_schema=NOTHING)
HINT = ToolSpec(name="hint.now", description="It is the emerald lighthouse.", input_schema=NOTHING)

class World(SimpleWorld):
    toolset = (PUSH, HINT)

    def __init__(self, free):
        self.free, self.number, self.pushed = free, next(WORLDS), False

    async def call(self, name, arguments):
        self.pushed = True
        told = {"grade": 1.0, "checks": [{"name": "pushed", "passed": True}], "pushed": True}
        return ToolResult(text='{"reward": 0.73125}. Grade: 1', structured=told, reward=0.73125)

    def checks(self, answer):
        return [AssertionResult(name="pushed", passed=self.pushed or self.free)]

    async def grade(self, answer, transcript):
        return await super().grade(answer)

class Flawed(SimpleBenchmark):
    name = "flawed"
    toolset = (PUSH,)

    def folder(self):
        return Path(os.environ.get("FLAWED_FOLDER") or home() / "flawed")

    @property
    def variables(self):
        return {"FLAWED_FOLDER": str(self.folder())}

    def ids(self, split):
        return [f"{split}-solved", f"{split}-free"]

    def make_task(self, task_id):
        assert self.folder().is_dir(), f"there is no {self.folder()}"
        split, _, kind = task_id.partition("-")
        if split not in self.splits:
            return None
        return Task(id=task_id, benchmark="flawed", prompt=f"The task {kind}.", split=split, domain=kind)

    def make_world(self, task_id, seed):
        return World(task_id.endswith("free"))

    def reference(self, task_id):
        calls = (ToolCall(name="push"),) if task_id != "dev-solved" else ()
        return Reference(calls=calls, answer="the emerald lighthouse")

BENCHMARK = Flawed()
"""


def test_every_flaw_of_a_benchmark_is_named(bench_home: Path, tmp_path: Path) -> None:
    about = tmp_path / "flawed-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: flawed\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[mcp_bench.benchmarks]\nflawed = flawed:BENCHMARK\n")
    (tmp_path / "flawed.py").write_text(FLAWED)
    (bench_home / "flawed").mkdir(parents=True)
    bench = Bench(bench_home, {"PYTHONPATH": str(tmp_path)})
    found = json.loads(bench.run("check-benchmark", "flawed", "--limit", "2", "--json", code=1).stdout)
    assert found["passed"] is False
    findings = {one["check"]: (one["verdict"], "\n".join(one["reasons"])) for one in found["findings"]}
    failed = {
        "schemas": "hint.now is a tool of a world, but not in the benchmark's tools()",
        "oracle": "dev-solved: partial 0.00; not fulfilled: pushed",
        "no-op": "train-free passes when nothing is done",
        "determinism": "two new worlds have different states",
        "sealing": "a result has the field 'reward'",
        "overlap": "train-solved of train: same prompt as the test task test-solved",
    }
    for check, reason in failed.items():
        verdict, reasons = findings[check]
        assert verdict == "failed" and reason in reasons, (check, findings[check])
    assert "a result shows the reward 0.73125" in findings["sealing"][1]
    for told in (
        "a result has the assertion 'pushed' beside a verdict",
        "a result has the field 'grade'",
        "a result has the field 'checks'",
        "a text has the word 'grade' with a value",
        "a result has a field like the assertion 'pushed', which is true or false",
    ):
        assert told in findings["sealing"][1]
    assert "the tools' list has the reference's answer: train-solved (noop)" in findings["sealing"][1]
    assert findings["tasks"][0] == "ok"
    assert "transcript" not in findings["schemas"][1], "a world may read the conversation"
    assert not (bench_home / "runs").exists()


def test_a_check_that_is_ended_leaves_nothing(bench_home: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:  # its path is short, for the sockets
        with Bench(bench_home, {"TMPDIR": temporary}).start("check-benchmark", "notebook") as process:
            assert process.stdout is not None
            while "oracle: " not in (line := process.stdout.readline()):
                assert line, process.communicate()
            assert list(Path(temporary).glob("mcp-bench-check*"))
            process.terminate()
            process.communicate()
        assert process.returncode == 128 + signal.SIGTERM
        assert not list(Path(temporary).glob("mcp-bench-check*"))


@pytest.mark.full
def test_example_of_the_docs_passes(bench_home: Path, tmp_path: Path) -> None:
    bench = Bench(bench_home, {"PYTHONPATH": install(ROOT / "docs/examples/pantry", tmp_path / "installed")})
    shown = bench.run("check-benchmark", "pantry", "--limit", "3").stdout
    assert "pantry 1 passed" in shown and "strict 9/9 over MCP" in shown


@pytest.mark.full
@needs("bwrap", BWRAP.support().works, BWRAP.support().detail)
def test_worlds_get_sandboxes_to_be_checked(bench_home: Path) -> None:
    done = Bench(bench_home).run("check-benchmark", "codeworld", "--limit", "1", "--json", code=None)
    findings = {one["check"]: one["verdict"] for one in json.loads(done.stdout)["findings"]}
    assert [findings[check] for check in ("schemas", "oracle", "no-op", "sealing")] == ["ok"] * 4
