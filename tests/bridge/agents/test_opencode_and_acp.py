"""opencode, and agents over ACP, solve real tasks through the whole chain; only the model is a stand-in."""

import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from itertools import islice
from pathlib import Path

import anyio
import pytest

from mcp_bench.plugins.contracts import McpServer
from mcp_bench.servers import agentdojo, saasworld
from tests.support.agents.agent_attempt import DESK_SERVER
from tests.support.agents.node_clis import node_environ
from tests.support.desk.desk_script import JOURNAL, PROMPT, script
from tests.support.desk.held_server import HeldServer
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault, Gate
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
SOON = 3
"""Seconds in which an agent that does not wait would have called its model."""
BENCHMARKS = {"agentdojo": agentdojo.BENCHMARK, "saasworld": saasworld.BENCHMARK}
AGENTS = {
    "opencode": ("opencode",),
    "acp-opencode": ("acp", "command=opencode acp"),
    "acp-codex": ("acp", "command=codex-acp"),
    "acp-gemini": ("acp", "command=gemini --acp"),
    "acp-qwen": ("acp", "command=qwen --acp"),
}


@pytest.fixture(scope="module")
def tasks() -> Iterator[dict]:
    """Three tasks of each benchmark by id, with prompt, reference calls and answer."""
    chosen = {
        "agentdojo": ["workspace/user_task_6", "banking/user_task_3", "slack/user_task_2"],
        "saasworld": [task.id for task in islice(saasworld.BENCHMARK.tasks("train"), 3)],
    }
    known: dict = {}
    for name, ids in chosen.items():
        benchmark = BENCHMARKS[name]
        for task in ids:
            found = benchmark.reference(task)
            assert found is not None
            known.setdefault(name, {})[task] = {"prompt": benchmark.task(task).prompt, **found.model_dump()}
    anyio.run(agentdojo.BENCHMARK.aclose)
    yield known


PAIRS = [f"{benchmark} {agent}" for benchmark in BENCHMARKS for agent in AGENTS]
USUAL = ("agentdojo acp-codex",)
CASES = [
    *(pytest.param(pair, 1, id=pair) for pair in USUAL),
    *(pytest.param(pair, 3, id=f"{pair} all", marks=pytest.mark.full) for pair in PAIRS),
]
"""A benchmark and an agent, and on how many tasks; opencode alone takes eight seconds for each. The tests of each
plugin have a session of each agent."""


@pytest.mark.parametrize(("pair", "count"), CASES)
def test_it_solves_real_tasks(bench, tasks: dict, pair: str, count: int) -> None:
    benchmark, agent = pair.split()
    references = dict(islice(tasks[benchmark].items(), count))
    scripts = [script_from_reference(one["prompt"], one) for one in references.values()]
    keys = dict.fromkeys(("OPENAI_API_KEY", "GEMINI_API_KEY"), KEY)
    bench.environ.update(PATH=node_environ(bench.home.parent)["PATH"], **keys)
    name, *options = AGENTS[agent]
    chosen = [part for task in references for part in ("--task", task)]
    chosen += [part for option in options for part in ("--agent-option", option)]
    with ModelEndpoint(scripts, api_key=KEY) as endpoint:
        url = endpoint.gemini_url if agent == "acp-gemini" else endpoint.openai_url
        bench.run(
            "record", "--agent", name, "--benchmark", benchmark, *chosen, "--model", "scripted-1",
            "--base-url", url, "--timeout", "200", "--jobs", "2",
        )  # fmt: skip
    episodes = {row["task"]: row for row in bench.rows("select * from episodes")}
    assert {task: (row["invalid"], row["termination"]) for task, row in episodes.items()} == dict.fromkeys(
        references, (None, "agent_exit")
    )
    assert [row["partial"] for row in bench.grades()] == [1.0] * count
    stored: Counter = Counter()
    for task, episode in episodes.items():
        wanted = [(call["name"], call["arguments"]) for call in references[task]["calls"]]
        calls = bench.rows("select tool, arguments from calls where episode = ? order by id", episode["id"])
        assert [(call["tool"], json.loads(call["arguments"])) for call in calls] == wanted
        rows = bench.rows("select * from messages where episode = ? order by position", episode["id"])
        assert rows[0]["content"] == references[task]["prompt"]
        assert any("think first" in (message["reasoning"] or "") for message in rows)
        assert rows[-1]["content"] == (references[task]["answer"] or "Done.")
        asked = [call["function"]["name"] for row in rows for call in json.loads(row["tool_calls"] or "[]")]
        assert asked == [name for name, _ in wanted]
        usage = json.loads(episode["usage"])
        stored.update({key: usage[key] for key in ("input_tokens", "output_tokens")})
    sent: Counter = Counter()
    for request in endpoint.requests:
        assert request.usage is not None
        sent.update(input_tokens=request.usage.input, output_tokens=request.usage.output)
    assert stored == sent


@pytest.mark.full  # the tests of the plugin hold the prompt of a stand-in
@pytest.mark.parametrize("agent", list(AGENTS)[1:])
def test_the_first_prompt_waits_for_a_slow_server(bench, tmp_path: Path, agent: str) -> None:
    keys = dict.fromkeys(("OPENAI_API_KEY", "GEMINI_API_KEY"), KEY)
    bench.environ.update(PATH=node_environ(bench.home.parent)["PATH"], **keys)
    desk, gate = McpServer("desk", (sys.executable, str(DESK_SERVER)), ()), Gate()
    with (
        closing(HeldServer(desk, tmp_path)) as held,
        ModelEndpoint([script()], api_key=KEY, fault=Fault(gate=gate)) as endpoint,
    ):
        url = endpoint.gemini_url if agent == "acp-gemini" else endpoint.openai_url
        with bench.start(
            "record", "--server", shlex.join(held.entry.command), "--prompt", PROMPT,
            "--agent", "acp", "--agent-option", AGENTS[agent][1],
            "--model", "scripted-1", "--base-url", url, "--timeout", "200",
        ) as process:  # fmt: skip
            try:
                started = held.wait_until_started()
                asked = gate.arrived.wait(SOON)
                gate.release.set()
                held.let_go()
                _, err = process.communicate(timeout=240)
            finally:
                process.kill()
    assert (started, asked, process.returncode) == (True, False, 0), err
    (episode,) = bench.rows("select invalid, termination, answer from episodes")
    assert episode == {"invalid": None, "termination": "agent_exit", "answer": "3 and 7."}
    done = bench.rows("select tool from calls where outcome = 'ok'")
    assert sorted(row["tool"] for row in done) == sorted(tool for tool, _ in JOURNAL)
