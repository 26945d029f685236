"""The real Codex and Claude Code solve tasks of both benchmarks, end to end.

Only the model is a stand-in: a scripted endpoint on 127.0.0.1 that plays each task's reference
calls. Binary, configuration, relay, recording, grading, transcript and report are the real ones.
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
TASKS = ("workspace/user_task_6", "banking/user_task_3", "slack/user_task_2")
SAAS_TASKS = (
    "simple-candidate-stage.1.train.0",
    "finance-budget-limits.1.train.0",
    "marketing-campaign-budget.3.train.0",
)
SOLVED = {AGENTDOJO: TASKS, SAASWORLD: SAAS_TASKS}
PINNED = {"codex": "0.169.0", "claude-code": "2.1.329"}


@pytest.fixture(scope="module")
def references() -> Iterator[dict]:
    """Prompt, reference calls and answer of each task, from the worker."""
    known = {}
    for benchmark, tasks in SOLVED.items():
        for task in tasks:
            found = benchmark.reference(task)
            assert found is not None
            known[task] = {"prompt": benchmark.task(task).prompt, **found.model_dump()}
    anyio.run(AGENTDOJO.aclose)
    yield known


@pytest.fixture
def endpoint(references: dict) -> Iterator[ModelEndpoint]:
    scripts = [script_from_reference(one["prompt"], one) for one in references.values()]
    with ModelEndpoint(scripts, api_key=KEY) as running:
        yield running


@pytest.fixture
def real_agents(bench, endpoint: ModelEndpoint):
    """Put the real agents on PATH; return a function that records with one of them."""
    environ = node_environ(bench.home.parent)
    bench.environ.update(PATH=environ["PATH"], OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY)

    def record(
        agent: str, *more: str, benchmark: str = "agentdojo", tasks: tuple[str, ...] = TASKS, code: int = 0
    ):
        url = endpoint.openai_url if agent == "codex" else endpoint.anthropic_url
        chosen = [part for task in tasks for part in ("--task", task)]
        return bench.run(
            "record", "--agent", agent, "--benchmark", benchmark, *chosen, "--model", "scripted-1",
            "--base-url", url, "--timeout", "120", "--jobs", "2", *more, code=code,
        )  # fmt: skip

    return record


@pytest.mark.parametrize(
    ("agent", "benchmark", "count"),
    [
        pytest.param("codex", SAASWORLD, 3, id="codex-saasworld"),
        pytest.param("claude-code", AGENTDOJO, 1, id="claude-code-agentdojo"),
        pytest.param("codex", AGENTDOJO, 3, id="codex-agentdojo", marks=pytest.mark.full),
        pytest.param("claude-code", SAASWORLD, 3, id="claude-code-saasworld", marks=pytest.mark.full),
        pytest.param("claude-code", AGENTDOJO, 3, id="claude-code-agentdojo-all", marks=pytest.mark.full),
    ],
)
def test_a_real_agent_solves_real_tasks(
    bench, real_agents, references: dict, endpoint, agent: str, benchmark, count: int
) -> None:
    tasks = SOLVED[benchmark][:count]
    real_agents(agent, benchmark=benchmark.name, tasks=tasks)
    episodes = {row["task"]: row for row in bench.rows("select * from episodes")}
    assert set(episodes) == set(tasks)
    grades = {row["episode"]: row for row in bench.grades()}
    for task, episode in episodes.items():
        assert episode["invalid"] is None
        assert episode["termination"] == "agent_exit"
        calls = bench.rows(
            "select tool, arguments, outcome from calls where episode = ? order by id", episode["id"]
        )
        wanted = [(call["name"], call["arguments"]) for call in references[task]["calls"]]
        assert [(call["tool"], json.loads(call["arguments"])) for call in calls] == wanted
        assert grades[episode["id"]]["partial"] == 1.0
        messages = bench.rows("select * from messages where episode = ? order by position", episode["id"])
        assert messages[0]["content"] == references[task]["prompt"]
        assert any("think first" in (message["reasoning"] or "") for message in messages)
        assert messages[-1]["role"] == "assistant"
        assert messages[-1]["content"] == (references[task]["answer"] or "Done.")
        asked = [
            call["function"]["name"] for row in messages for call in json.loads(row["tool_calls"] or "[]")
        ]
        assert asked == [name for name, _ in wanted]
    sent = Counter()
    for request in endpoint.answered:
        sent.update(input_tokens=request.usage.input, output_tokens=request.usage.output)
    stored = Counter()
    for episode in episodes.values():
        usage = json.loads(episode["usage"])
        stored.update({key: usage[key] for key in ("input_tokens", "output_tokens")})
    assert stored == sent
    (row,) = json.loads(bench.run("report", "--by", "agent", "--json").stdout)
    assert (row["agent"], row["episodes"], row["strict"], row["invalid"]) == (agent, len(tasks), 1.0, 0)
    assert (row["clean"], row["tainted"]) == (len(tasks), 0)
    (run,) = bench.rows("select agent_version from runs")
    assert PINNED[agent] in run["agent_version"]
    files = [path for path in bench.home.rglob("*") if path.is_file()]
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


@pytest.mark.parametrize(
    ("agent", "status"),
    [
        pytest.param("codex", 500, marks=pytest.mark.full),
        ("claude-code", 401),
        pytest.param("codex", 401, marks=pytest.mark.full),
        pytest.param("claude-code", 500, marks=pytest.mark.full),
    ],
)
def test_a_broken_endpoint_makes_the_episode_invalid(
    bench, real_agents, endpoint: ModelEndpoint, agent: str, status: int
) -> None:
    endpoint.fault = Fault(status=status)
    done = real_agents(agent, "--agent-option", "max_retries=1", tasks=TASKS[:1], code=1)
    (episode,) = bench.rows("select invalid from episodes")
    assert episode["invalid"] == ("login_missing" if status == 401 else "endpoint_error"), done.stderr
    assert bench.grades() == []
    (row,) = bench.report()
    assert (row["invalid"], row["strict_invalid_as_0"]) == (1, 0.0)


def test_a_missing_login_fails_before_the_run(bench, real_agents) -> None:
    del bench.environ["OPENAI_API_KEY"]
    done = bench.run("record", "--agent", "codex", "--benchmark", "agentdojo", "--limit", "1", code=1)
    assert "no login: set CODEX_API_KEY or OPENAI_API_KEY" in done.stderr
    assert not (bench.home / "runs").exists()
