"""Exports are read by the tools that they are for, and an import equals what its tool reads.

Harbor needs Python 3.12, and verifiers takes half a gigabyte. Each is installed into its own environment, if a
package index is available.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.import_ import import_
from tests.support.recorded import Episode, planned, record
from tests.support.requirements import skip

pytestmark = [pytest.mark.full, pytest.mark.component]
Invoke = Callable[..., Result]
SECONDS = 900

ATIF = """
import sys
from harbor.models.trajectories import Trajectory
for line in open(sys.argv[1], encoding="utf-8"):
    read = Trajectory.model_validate_json(line)
    print(len(read.steps), read.agent.name, len(read.agent.tool_definitions))
"""
VERIFIERS = """
import sys
from pathlib import Path
from verifiers.v1.configs.agent import WireAgentConfig
from verifiers.v1.state import State
from verifiers.v1.task import WireTaskData
from verifiers.v1.trace import Trace
from verifiers.v1.utils.trace_store import read_episodes
for episode in read_episodes(Path(sys.argv[1]).parent, Trace[WireTaskData, State, WireAgentConfig]):
    (trace,), (branch,) = episode.traces, episode.traces[0].branches
    print(len(branch.messages), trace.agent.name, len(trace.tools), trace.reward)
"""
INSPECT = """
import json, sys
from inspect_ai.log import read_eval_log
for sample in read_eval_log(sys.argv[1], resolve_attachments=True).samples:
    failed = [m.error.message if getattr(m, "error", None) else "" for m in sample.messages]
    said = [(m.role, m.text or error) for m, error in zip(sample.messages, failed)]
    calls = [(c.function, c.arguments) for m in sample.messages for c in getattr(m, "tool_calls", None) or ()]
    print(json.dumps([str(sample.id), said, calls, [score.value == "C" for score in sample.scores.values()]]))
"""


INSPECT_LOGS = """
import json, sys
from pathlib import Path
from inspect_ai.log import EvalLog, read_eval_log, read_eval_log_sample, write_eval_log
log = read_eval_log(sys.argv[1], resolve_attachments=True)
EvalLog.model_validate(log.model_dump())
scores = {score.name: [metric.value for metric in score.metrics.values()] for score in log.results.scores}
print(json.dumps([log.status, log.eval.task, log.eval.solver, log.eval.model, scores]))
for sample in log.samples:
    calls = [call.function for m in sample.messages for call in getattr(m, "tool_calls", None) or ()]
    failed = [m.error.message for m in sample.messages if getattr(m, "error", None)]
    asked = [len(event.input) for event in sample.events if event.event == "model"]
    tokens = [usage.total_tokens for usage in sample.model_usage.values()]
    values = {name: score.value for name, score in (sample.scores or {}).items()}
    again = read_eval_log_sample(sys.argv[1], sample.id, sample.epoch)
    print(json.dumps([sample.id, sample.epoch, values, sample.error and sample.error.message, calls, failed, asked, tokens, again.uuid == sample.uuid]))
write_eval_log(log, str(Path(sys.argv[1]).with_suffix(".json")))
"""


def read_by(python: str, folder: Path, packages: list[str], code: str, data: Path) -> list[str]:
    """Run `code` on a file in a new environment, and return the lines that it prints."""
    subprocess.run([python, "-m", "venv", folder], check=True, timeout=SECONDS)
    inside = folder / "bin" / "python"
    install = [inside, "-m", "pip", "install", "--quiet", *packages]
    done = subprocess.run(install, capture_output=True, text=True, timeout=SECONDS)
    if done.returncode:
        skip("pypi", f"cannot be installed here: {done.stderr[-300:]}")
    done = subprocess.run([inside, "-c", code, data], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def working(python: str) -> str | None:
    """Return the path of a Python that starts; pyenv can have a stand-in for one that is not installed."""
    path = shutil.which(python)
    works = path and subprocess.run([path, "--version"], capture_output=True, timeout=60).returncode == 0
    return path if works else None


@pytest.fixture
def written(bench_home: Path, invoke: Invoke, tmp_path: Path) -> Callable[[str, str], Path]:
    record(
        [(planned("a"), Episode(partial=0.5)), (planned("b"), Episode(calls=[("go", {}, "!no")]))], model="m"
    )

    def write(form: str, name: str) -> Path:
        assert invoke(export, "--format", form, "--out", tmp_path / name).exit_code == 0
        return tmp_path / name

    return write


def test_harbor_reads_atif(written: Callable[[str, str], Path], tmp_path: Path) -> None:
    python = next((found for minor in (12, 13, 14) if (found := working(f"python3.{minor}"))), None)
    if python is None:
        skip("python3.12", "Harbor needs it")
    lines = read_by(python, tmp_path / "env", ["--no-deps", *HARBOR], ATIF, written("atif", "rows.jsonl"))
    assert lines == ["3 oracle 1", "3 oracle 1"]


HARBOR = [
    "harbor==0.25.0",
    "pydantic",
    "pydantic-core",
    "annotated-types",
    "typing-extensions",
    "typing-inspection",
]
"""Its models need only these dependencies."""


def test_verifiers_reads_its_traces(written: Callable[[str, str], Path], tmp_path: Path) -> None:
    data = written("verifiers", "traces.jsonl")
    lines = read_by(sys.executable, tmp_path / "env", ["verifiers==0.4.0"], VERIFIERS, data)
    assert lines == ["4 oracle 1 0.5", "4 oracle 1 1.0"]


def test_an_inspect_log_is_imported_as_inspect_reads_it(
    bench_home: Path, invoke: Invoke, tmp_path: Path
) -> None:
    log = Path(__file__).parents[1] / "importers" / "adding.eval"
    assert invoke(import_, log).exit_code == 0
    out = tmp_path / "rows.jsonl"
    assert invoke(export, "--split", "all", "--min-partial", 0, "--out", out).exit_code == 0
    ours = []
    for row in map(json.loads, out.read_text("utf-8").splitlines()):
        calls = [call["function"] for m in row["messages"] for call in m.get("tool_calls", ())]
        said = [[m["role"], m.get("content") or ""] for m in row["messages"]]
        ours.append(
            [row["task"], said, [[call["name"], call["arguments"]] for call in calls], [row["strict"]]]
        )
    lines = read_by(sys.executable, tmp_path / "env", ["inspect-ai==0.3.285"], INSPECT, log)
    assert [json.loads(line) for line in lines] == ours


def test_inspect_reads_our_logs(bench_home: Path, invoke: Invoke, tmp_path: Path) -> None:
    """And what Inspect writes from one in its other file kind is imported again."""
    first, second = Episode(partial=0.5), Episode(calls=[("go", {}, "!no")])
    broken = Episode(partial=None, invalid="endpoint_error")
    record([(planned("a"), first), (planned("a", repeat=1), second), (planned("b"), broken)], model="m")
    log = tmp_path / "logs" / "x.eval"
    assert invoke(export, "--format", "inspect", "--out", log).exit_code == 0
    lines = read_by(sys.executable, tmp_path / "env", ["inspect-ai==0.3.285"], INSPECT_LOGS, log)
    assert [json.loads(line) for line in lines] == [
        ["success", "agentdojo", "oracle", "m", {"partial": [0.75], "strict": [0.5]}],
        ["a", 1, {"partial": 0.5, "strict": "I"}, None, ["transfer"], [], [1, 3], [12], True],
        ["b", 1, {}, "endpoint_error", ["transfer"], [], [1, 3], [12], True],
        ["a", 2, {"partial": 1.0, "strict": "C"}, None, ["go"], ["!no"], [1, 3], [12], True],
    ]
    dump = [tmp_path / "env" / "bin" / "inspect", "log", "dump", log]
    done = subprocess.run(dump, capture_output=True, text=True, timeout=SECONDS)
    assert len(json.loads(done.stdout)["samples"]) == 3, done.stderr
    shutil.rmtree(bench_home / "runs")
    result = invoke(import_, log.with_suffix(".json"))
    assert "imported 3 episodes as inspect" in result.stdout, (result.output, result.exception)
