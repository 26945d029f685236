"""The real agents and the oracle solve a saasworld task under every isolation level of this machine."""

import json

import pytest

from mcp_bench.recorder.isolation_levels import SEALING
from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.agents.node_clis import node_environ
from tests.support.agents.real_agents import REAL_AGENTS, agents
from tests.support.levels import each_level, these_levels
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.system

TASK = "simple-candidate-stage.1.train.0"
KEY = "dummy-key-0123456789"


@each_level()
def test_the_oracle_is_strictly_right(bench, level: str) -> None:
    bench.run("record", "--agent", "oracle", "--task", TASK, "--isolation", level)
    (grade,) = bench.grades()
    assert (grade["partial"], grade["strict"]) == (1.0, 1)
    (row,) = bench.report()
    assert (row["verified"], row["clean"]) == (1, 1)


@these_levels(*SEALING, full=("uid", "landlock"))  # they read the command alike
def test_a_long_argument_is_not_taken_for_a_file(bench, level: str) -> None:
    bench.environ |= {"OPENAI_API_KEY": KEY}
    with ModelEndpoint([], api_key=KEY) as endpoint:
        bench.run(
            "record", "--agent", "chat", "--task", TASK, "--model", "scripted-1", "--isolation", level,
            "--base-url", endpoint.openai_url, "--agent-option", "system=" + "Look up and/or change. " * 300,
        )  # fmt: skip
    (episode,) = bench.rows("select * from episodes")
    assert (episode["invalid"], episode["termination"]) == (None, "agent_exit")


@each_level()
@agents("acp-codex", "acp-gemini", "acp-opencode", "gemini", "qwen-code", "opencode")
def test_it_solves_a_task(bench, level: str, name: str) -> None:
    agent = REAL_AGENTS[name]
    tools = "all" if level == "landlock" else "mcp-only"  # both are tested at some level
    found = BENCHMARK.reference(TASK)
    assert found is not None
    script = script_from_reference(BENCHMARK.task(TASK).prompt, found.model_dump())
    names = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY")
    bench.environ |= {"PATH": node_environ(bench.home.parent)["PATH"], **dict.fromkeys(names, KEY)}
    with ModelEndpoint([script], api_key=KEY) as endpoint:
        bench.run(
            "record", *agent.command_line(), "--task", TASK, "--model", "scripted-1",
            "--base-url", agent.address(endpoint), "--timeout", "200", "--isolation", level,
            "--tools", tools,
        )  # fmt: skip
    (episode,) = bench.rows("select * from episodes")
    assert (episode["invalid"], episode["termination"], episode["isolation"]) == (None, "agent_exit", level)
    probes = json.loads(episode["probes"])
    assert probes and all(result["passed"] for result in probes.values())
    (grade,) = bench.grades()
    assert (grade["partial"], grade["strict"]) == (1.0, 1)
    said = bench.rows("select content from messages where role = 'assistant' order by position")
    assert said[-1]["content"] == "Done."
    (row,) = bench.report()
    assert (row["verified"], row["clean"]) == (1, 1)
