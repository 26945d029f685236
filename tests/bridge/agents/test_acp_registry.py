"""Agents over ACP from npm and PyPI solve a real task through the whole chain; only the model is a stand-in."""

import json
from itertools import islice
from pathlib import Path

import pytest

from mcp_bench.servers import saasworld
from tests.support.agents.acp_agents import AGENTS, KEY
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference

pytestmark = [pytest.mark.system, pytest.mark.full]


@pytest.mark.parametrize("name", AGENTS)
def test_it_solves_a_real_task(bench, tmp_path: Path, name: str) -> None:
    agent = AGENTS[name]
    task = next(islice(saasworld.BENCHMARK.tasks("train"), 2, None))
    reference = saasworld.BENCHMARK.reference(task.id)
    assert reference is not None
    user = tmp_path / "user"
    with ModelEndpoint([script_from_reference(task.prompt, reference.model_dump())], api_key=KEY) as endpoint:
        url = getattr(endpoint, agent.url)
        bench.environ.update(agent.settings(user, url))
        bench.run(
            "record", "--agent", "acp", "--agent-option", f"command={agent.command}", "--task", task.id,
            *(part for option in agent.options for part in ("--agent-option", option)),
            *(argument.replace("{URL}", url) for argument in agent.arguments), "--timeout", "200",
        )  # fmt: skip
    (episode,) = bench.rows("select * from episodes")
    assert (episode["invalid"], episode["termination"]) == (None, "agent_exit")
    assert [grade["partial"] for grade in bench.grades()] == [1.0]
    made = bench.rows("select tool, arguments from calls order by id")
    assert [(call["tool"], json.loads(call["arguments"])) for call in made] == [
        (call.name, call.arguments) for call in reference.calls
    ]
    messages = bench.rows("select role, tool_calls from messages order by position")
    said = [call["function"]["name"] for row in messages for call in json.loads(row["tool_calls"] or "[]")]
    assert said == [call.name for call in reference.calls]
