"""The real Gemini CLI and Qwen Code solve tasks of both benchmarks, end to end.

Only the model is a stand-in: a scripted endpoint on 127.0.0.1 that plays each task's reference calls.
"""

import json
from collections import Counter
from collections.abc import Iterator

import anyio
import pytest

from mcp_bench.servers.agentdojo import BENCHMARK as AGENTDOJO
from mcp_bench.servers.saasworld import BENCHMARK as SAASWORLD
from tests.support.agents.node_clis import node_environ
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
TASKS = {
    SAASWORLD: (
        "simple-candidate-stage.1.train.0",
        "finance-budget-limits.1.train.0",
        "marketing-campaign-budget.3.train.0",
    ),
    AGENTDOJO: ("workspace/user_task_6", "banking/user_task_3", "slack/user_task_2"),
}
AGENTS = ("gemini", "qwen-code")


@pytest.fixture(scope="module")
def references() -> dict[str, dict]:
    """Prompt, reference calls and answer of each task."""
    known = {}
    for benchmark, tasks in TASKS.items():
        for task in tasks:
            found = benchmark.reference(task)
            assert found is not None
            known[task] = {"prompt": benchmark.task(task).prompt, **found.model_dump()}
    anyio.run(AGENTDOJO.aclose)
    return known


@pytest.fixture
def endpoint(references: dict) -> Iterator[ModelEndpoint]:
    scripts = [script_from_reference(one["prompt"], one) for one in references.values()]
    with ModelEndpoint(scripts, api_key=KEY) as running:
        yield running


@pytest.fixture
def record(bench, endpoint: ModelEndpoint):
    """Record with one of the real agents on PATH."""
    environ = node_environ(bench.home.parent)
    bench.environ.update(PATH=environ["PATH"], OPENAI_API_KEY=KEY, GEMINI_API_KEY=KEY)

    def run(agent: str, benchmark: str, tasks: tuple[str, ...], *more: str, code: int = 0):
        url = endpoint.gemini_url if agent == "gemini" else endpoint.openai_url
        chosen = [part for task in tasks for part in ("--task", task)]
        return bench.run(
            "record", "--agent", agent, "--benchmark", benchmark, *chosen, "--model", "scripted-1",
            "--base-url", url, "--timeout", "120", "--jobs", "2", *more, code=code,
        )  # fmt: skip

    return run


@pytest.mark.parametrize(
    ("agent", "benchmark", "count"),
    [
        pytest.param("gemini", SAASWORLD, 1, id="gemini-saasworld"),
        *(
            pytest.param(agent, benchmark, 3, id=f"{agent}-{benchmark.name}-all", marks=pytest.mark.full)
            for agent in AGENTS
            for benchmark in TASKS
        ),
    ],
)
def test_it_solves_real_tasks(
    bench, record, references: dict, endpoint, agent: str, benchmark, count: int
) -> None:
    tasks = TASKS[benchmark][:count]
    record(agent, benchmark.name, tasks)
    episodes = {row["task"]: row for row in bench.rows("select * from episodes")}
    assert set(episodes) == set(tasks)
    grades = {row["episode"]: row for row in bench.grades()}
    for task, episode in episodes.items():
        assert (episode["invalid"], episode["termination"]) == (None, "agent_exit")
        calls = bench.rows("select tool, arguments from calls where episode = ? order by id", episode["id"])
        wanted = [(call["name"], call["arguments"]) for call in references[task]["calls"]]
        assert [(call["tool"], json.loads(call["arguments"])) for call in calls] == wanted
        assert grades[episode["id"]]["partial"] == 1.0
        messages = bench.rows("select * from messages where episode = ? order by position", episode["id"])
        assert messages[0]["content"] == references[task]["prompt"]
        thoughts = [message["reasoning"] for message in messages if message["role"] == "assistant"]
        assert thoughts == [f"Step {number}: think first." for number in range(1, len(wanted) + 2)]
        assert (messages[-1]["role"], messages[-1]["content"]) == (
            "assistant",
            references[task]["answer"] or "Done.",
        )
        asked = [
            call["function"]["name"] for row in messages for call in json.loads(row["tool_calls"] or "[]")
        ]
        assert asked == [name for name, _ in wanted]
    assert counted(json.loads(episode["usage"]) for episode in episodes.values()) == counted(
        {"input_tokens": request.usage.input, "output_tokens": request.usage.output, "model_calls": 1}
        for request in endpoint.requests
    )
    (row,) = json.loads(bench.run("report", "--by", "agent", "--json").stdout)
    assert (row["agent"], row["episodes"], row["strict"], row["invalid"]) == (agent, len(tasks), 1.0, 0)
    files = [path for path in bench.home.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def counted(usages) -> Counter:
    total = Counter()
    for usage in usages:
        total.update({key: usage[key] for key in ("input_tokens", "output_tokens", "model_calls")})
    return total


@pytest.mark.full  # each plugin's tests have the endpoint that refuses
@pytest.mark.parametrize("agent", AGENTS)
def test_a_broken_endpoint_makes_the_episode_invalid(bench, record, endpoint, agent: str) -> None:
    endpoint.fault = Fault(status=401, after=1)
    record(agent, SAASWORLD.name, TASKS[SAASWORLD][:1], code=1)
    (episode,) = bench.rows("select invalid from episodes")
    assert episode["invalid"] == "login_missing"
    assert bench.grades() == []


def test_a_missing_login_fails_before_the_run(bench, record) -> None:
    del bench.environ["GEMINI_API_KEY"], bench.environ["OPENAI_API_KEY"]
    for agent in AGENTS:
        done = bench.run("record", "--agent", agent, "--limit", "1", code=1)
        assert f"{agent} has no login" in done.stderr
    assert not (bench.home / "runs").exists()


@pytest.mark.full  # the other agents are listed by test_real_agents.py
def test_both_are_listed(bench, record) -> None:
    listed = {row["agent"]: row for row in json.loads(bench.run("agents", "--json").stdout)}
    assert {listed[agent]["version"] for agent in AGENTS} == {"0.61.0", "0.24.4"}
