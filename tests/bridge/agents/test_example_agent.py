"""The pages of docs/agents: their example is a plugin like any other, its files are those that run here, and the
table of agents is true."""

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bench.plugins import sdk
from mcp_bench.plugins.needs import Needs
from mcp_bench.servers.registry import load, registered
from mcp_bench.servers.saasworld import BENCHMARK
from tests.support import ROOT
from tests.support.machines.doctor_machine import program
from tests.support.machines.installed_example import install
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import Script, ScriptedCall, Step, script_from_reference

pytestmark = pytest.mark.system

AGENTS = (ROOT / "docs" / "agents" / "agents.md").read_text()
OWN_AGENT = (ROOT / "docs" / "agents" / "own-agent.md").read_text()
EXAMPLE = ROOT / "docs" / "examples" / "quill"
KEY = "dummy-key-0123456789"
TASKS = [task.id for task in BENCHMARK.tasks(limit=3)]


@pytest.fixture
def endpoint() -> Iterator[ModelEndpoint]:
    scripts = []
    for task in TASKS:
        reference = BENCHMARK.reference(task)
        assert reference is not None
        scripts.append(script_from_reference(BENCHMARK.task(task).prompt, reference.model_dump()))
    with ModelEndpoint(scripts, api_key=KEY) as running:
        yield running


@pytest.fixture
def quill(bench, tmp_path: Path, endpoint: ModelEndpoint):
    """Put the agent on PATH and install its plugin; return a function that records with it."""
    (tmp_path / "bin").mkdir()
    program(tmp_path / "bin", "quill", f'exec {sys.executable} {EXAMPLE / "quill.py"} "$@"')
    bench.environ |= {
        "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
        "PYTHONPATH": install(EXAMPLE, tmp_path / "installed"),
        "QUILL_API_KEY": KEY,
        "QUILL_BASE_URL": endpoint.openai_url,
        "PYTHONDONTWRITEBYTECODE": "1",
    }

    def record(*more: str, tasks: list[str] = TASKS[:1], code: int = 0):
        chosen = [part for task in tasks for part in ("--task", task)]
        return bench.run("record", "--agent", "quill", "--retries", "0", *chosen, *more, code=code)

    return record


def test_the_example_solves_tasks_and_has_a_transcript(bench, quill, endpoint: ModelEndpoint) -> None:
    quill("--jobs", "2", tasks=TASKS)
    assert [grade["partial"] for grade in bench.grades()] == [1.0] * 3
    sent = {"input_tokens": 0, "output_tokens": 0, "model_calls": 0}
    for request in endpoint.answered:
        sent["input_tokens"] += request.usage.input
        sent["output_tokens"] += request.usage.output
        sent["model_calls"] += 1
    episodes = bench.rows("select * from episodes")
    usages = [json.loads(row["usage"]) for row in episodes]
    assert {key: sum(usage[key] for usage in usages) for key in sent} == sent
    assert {(row["agent_version"], row["model"], row["invalid"]) for row in episodes} == {
        ("1.2.0", "quill-large", None)
    }
    for row in episodes:
        messages = bench.rows("select * from messages where episode = ? order by position", row["id"])
        found = [call["function"] for one in messages for call in json.loads(one["tool_calls"] or "[]")]
        reference = BENCHMARK.reference(row["task"])
        assert found == [{"name": call.name, "arguments": call.arguments} for call in reference.calls]
        assert messages[-1]["role"] == "assistant" and messages[-1]["content"]


@pytest.mark.parametrize(("status", "kind"), [(401, "login_missing"), (500, "endpoint_error")])
def test_the_example_reports_faults_of_others(
    bench, quill, endpoint: ModelEndpoint, status: int, kind: str
) -> None:
    endpoint.fault = Fault(status=status)
    quill(code=1)
    (episode,) = bench.rows("select invalid from episodes")
    assert episode["invalid"] == kind and bench.grades() == []


def test_a_missing_login_fails_before_the_run(bench, quill) -> None:
    del bench.environ["QUILL_API_KEY"], bench.environ["QUILL_BASE_URL"]
    assert "quill has no login: set QUILL_API_KEY" in quill(code=1).stderr


def test_an_example_that_is_killed_while_it_works_is_graded(bench, quill, endpoint: ModelEndpoint) -> None:
    prompt = BENCHMARK.task(TASKS[0]).prompt
    call = ScriptedCall(BENCHMARK.reference(TASKS[0]).calls[0].name, {"no": "such argument"})
    endpoint.scripts[:] = [Script(prompt, (Step((call,)),), endless=True)]
    quill("--max-calls", "3")
    (episode,) = bench.rows("select * from episodes")
    assert (episode["termination"], episode["invalid"]) == ("max_calls", None)
    assert len(bench.grades()) == 1


def test_doctor_knows_the_example(bench, quill) -> None:
    found = json.loads(bench.run("doctor", "quill", "--json").stdout)
    assert found["ready"] == ["quill"]
    assert {row["check"] for row in found["findings"] if row["subject"] == "quill"} == {
        "program", "version", "login", "endpoint",
    }  # fmt: skip


def test_the_documented_files_are_the_examples() -> None:
    for language, name in (("python", "quill_plugin.py"), ("toml", "pyproject.toml")):
        (block,) = re.findall(rf"^```{language}\n(.*?)^```", OWN_AGENT, re.DOTALL | re.MULTILINE)
        assert block == (EXAMPLE / name).read_text()
    assert len((EXAMPLE / "quill_plugin.py").read_text().splitlines()) < 100


def test_the_documented_helpers_are_public() -> None:
    named = re.findall(r"`(\w+)` of `mcp_bench\.plugins\.(\w+)`", OWN_AGENT)
    assert len(named) >= 2
    assert {module for _, module in named} == {"sdk"} and {name for name, _ in named} <= set(sdk.__all__)


def test_the_documented_table_matches_the_plugins() -> None:
    ours = [
        name for name, point in registered("agent").items() if point.value.startswith("mcp_bench.plugins.")
    ]
    assert "\n".join([HEAD, *map(row, ours)]) in AGENTS


HEAD = """\
| agent | tested with | own tools off | tokens | cost | reasoning | MCP by HTTP | `--home native` | own endpoint |
|---|---|---|---|---|---|---|---|---|"""


def row(name: str) -> str:
    agent = load("agent", name)
    can, needs = agent.capabilities, getattr(agent, "needs", Needs())
    found = [
        can.builtin_tools_off,
        can.reports_usage,
        can.reports_cost,
        can.reports_reasoning,
        can.http,
        can.native,
    ]
    found.append(needs.model and needs.own_endpoint)
    return f"| `{name}` | {needs.tested or '-'} | {' | '.join('yes' if yes else '-' for yes in found)} |"
