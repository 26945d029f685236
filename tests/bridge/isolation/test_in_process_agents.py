"""`--isolation in-process`: our chat agent as a part of the referee leaves the recording that a process leaves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.recorder.isolation_levels import IN_PROCESS
from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.bench_commands import Bench
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import Script, script_from_reference
from tests.support.talk_script import ONE_ACTION, SPOKEN, TALK, spoken

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
RECORDED = (
    "select role, content, reasoning, substr(tool_calls, 20) from messages where episode = ? order by position",
    "select tool, arguments, execution, outcome from calls where episode = ? order by id",
    "select status, outcome, message from model_calls where episode = ? order by id",
)
TASKS = tuple(f"simple-candidate-stage.1.train.{number}" for number in range(3))


def scripts() -> list[Script]:
    found = {task: BENCHMARK.reference(task) for task in TASKS}
    return [
        script_from_reference(BENCHMARK.task(task).prompt, one.model_dump())
        for task, one in found.items()
        if one is not None
    ]


def record(bench: Bench, endpoint: ModelEndpoint, *more: str, code: int = 0) -> dict[str, Any]:
    bench.environ["OPENAI_API_KEY"] = KEY
    done = bench.run(
        "record", "--agent", "chat", "--model", "scripted-1", "--base-url", endpoint.openai_url,
        "--isolation", IN_PROCESS, "--json", *more, code=code,
    )  # fmt: skip
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary


def contents(bench: Bench) -> dict[str, list[Any]]:
    """Return what was recorded of each task, but the ids of calls: the endpoint counts its requests."""
    found = {}
    for row in bench.rows("select id, task, usage, termination, exit_code, invalid from episodes"):
        own = [row[name] for name in ("usage", "termination", "exit_code", "invalid")]
        grades = "select partial, strict from grades where episode = ?"
        found[row["task"]] = [
            *own,
            *(bench.rows(query, row["id"]) for query in RECORDED),
            bench.rows(grades, row["id"], database="grades.db"),
        ]
    return found


def test_it_leaves_the_recording_of_a_process(bench: Bench, tmp_path: Path) -> None:
    other_bench = Bench(tmp_path / "other", dict(bench.environ))
    tasks = [word for task in TASKS for word in ("--task", task)]
    with ModelEndpoint(scripts(), api_key=KEY) as endpoint:
        summary = record(bench, endpoint, "--capture-llm", "--jobs", "3", *tasks)
    with ModelEndpoint(scripts(), api_key=KEY) as endpoint:
        record(other_bench, endpoint, "--capture-llm", *tasks, "--isolation", "none")
    assert (summary["strict"], summary["invalid"]) == (1.0, 0)
    assert contents(bench) == contents(other_bench)
    rows = bench.rows("select isolation from runs")
    assert [row["isolation"] for row in rows] == [IN_PROCESS]
    bench.run("verify")


@pytest.mark.parametrize(("agent", "api"), [("chat", "openai"), ("one-action", "anthropic")])
def test_it_hears_its_user(bench: Bench, agent: str, api: str) -> None:
    with ModelEndpoint(TALK if agent == "chat" else ONE_ACTION) as endpoint:
        url = endpoint.openai_url if api == "openai" else endpoint.anthropic_url
        more = ("--agent", agent, f"--agent-option=provider={api}", "--base-url", url)
        summary = record(bench, endpoint, "--benchmark", "counter", "--task", "talk", *more)
    assert summary["strict"] == 1.0
    assert spoken(bench.rows("select role, content from messages order by position")) == SPOKEN


def test_it_has_no_more_of_the_users_environment_than_a_process(bench: Bench) -> None:
    users = {"HTTP_PROXY": "http://127.0.0.1:9", "OPENAI_CUSTOM_HEADERS": "Authorization: Bearer the-users"}
    bench.environ |= users
    with ModelEndpoint(scripts(), api_key=KEY) as endpoint:
        summary = record(bench, endpoint, "--task", TASKS[0])
    assert summary["strict"] == 1.0


def test_its_failures_are_those_of_a_process(bench: Bench) -> None:
    with ModelEndpoint(scripts(), api_key=KEY) as endpoint:
        endpoint.fault = Fault(status=500, after=1)
        summary = record(
            bench, endpoint, "--task", TASKS[0], "--retries", "0", "--agent-option", "max_retries=0", code=1
        )
    assert summary["invalid"] == 1
    (episode,) = bench.rows("select invalid, exit_code from episodes")
    assert (episode["invalid"], episode["exit_code"]) == ("endpoint_error", 1)


def test_a_time_limit_ends_it(bench: Bench) -> None:
    with ModelEndpoint(scripts(), api_key=KEY) as endpoint:
        gate = Gate()
        endpoint.fault = Fault(gate=gate, after=1)
        record(bench, endpoint, "--task", TASKS[0], "--timeout", "10")
        gate.release.set()
    (episode,) = bench.rows("select invalid, termination from episodes")
    assert (episode["invalid"], episode["termination"]) == (None, "timeout")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--agent", "oracle"), "agent 'oracle' is a program of its own"),
        (("--require-isolation", "landlock"), "the level is in-process"),
        (("--server", "http://127.0.0.1:9/mcp", "--prompt", "Go."), "not for one at a URL"),
    ],
)
def test_what_it_does_not_go_with(bench: Bench, more: tuple[str, ...], says: str) -> None:
    with ModelEndpoint([]) as endpoint:
        done = bench.run(
            "record", "--agent", "chat", "--model", "scripted-1", "--base-url", endpoint.openai_url,
            *(() if "--server" in more else ("--task", TASKS[0])), "--isolation", IN_PROCESS, *more, code=None,
        )  # fmt: skip
    assert done.returncode != 0
    assert says in " ".join(done.stderr.split())
