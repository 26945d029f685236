"""The real Codex and Claude Code solve tasks in sandboxes: in a terminal, of Harbor's format, and an improvement."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.codeworld import BENCHMARK as CODEWORLD
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.harbor import BENCHMARK as HARBOR
from mcp_bench.servers.improve.benchmark import Improve
from tests.support.agents.node_clis import node_environ
from tests.support.bench_commands import Bench
from tests.support.improvement.small_task import write_task
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference
from tests.support.requirements import needs
from tests.support.task_folders import harbor_task

BWRAP = engines()["bwrap"]
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]
KEY = "dummy-key-0123456789"


def codeworld(folder: Path) -> tuple[Benchmark, str]:
    return CODEWORLD, "failing-function.1.dev.0"


def harbor(folder: Path) -> tuple[Benchmark, str]:
    harbor_task(folder)
    found = HARBOR.at(str(folder))
    return found, next(found.tasks("all")).id


def improve(folder: Path) -> tuple[Benchmark, str]:
    write_task(folder)
    return Improve().at(str(folder)), "sums.train.0"


def played(agent: str, work: Callable[[Path], tuple[Benchmark, str]], *, full: bool = True) -> object:
    return pytest.param(agent, work, marks=[pytest.mark.full] if full else [], id=f"{agent}-{work.__name__}")


@pytest.mark.parametrize(
    ("agent", "work"),
    [
        played("codex", codeworld),
        played("codex", harbor),
        played("codex", improve),
        played("claude-code", codeworld),
        played("claude-code", harbor),
        played("claude-code", improve, full=False),  # the same path as the others
    ],
)
def test_a_real_agent_does_the_work(
    bench: Bench, tmp_path: Path, agent: str, work: Callable[[Path], tuple[Benchmark, str]]
) -> None:
    folder = tmp_path / "tasks"
    folder.mkdir()
    benchmark, task_id = work(folder)
    reference = benchmark.reference(task_id)
    assert reference is not None
    first_line = benchmark.task(task_id).prompt.splitlines()[0]
    script = script_from_reference(first_line, {"calls": [call.model_dump() for call in reference.calls]})
    environ = node_environ(bench.home.parent)
    bench.environ.update(PATH=environ["PATH"], OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY)
    with ModelEndpoint([script], api_key=KEY) as endpoint:
        url = endpoint.openai_url if agent == "codex" else endpoint.anthropic_url
        done = bench.run(
            "record", "--agent", agent, "--benchmark", benchmark.name, "--task", task_id, "--model", "scripted-1",
            "--base-url", url, "--timeout", "120", "--json",
        )  # fmt: skip
    least = 0.5 if benchmark.name.startswith("improve") else 1.0  # a busy machine's clock can miss a tenth
    assert json.loads(done.stdout)["partial"] >= least
    made = [row["tool"] for row in bench.rows("select * from calls order by id")]
    assert made == [call.name for call in reference.calls]
