"""Real agents continue their sessions when the user of a world speaks again."""

import json

import pytest

from tests.support.agents.node_clis import node_environ
from tests.support.agents.real_agents import REAL_AGENTS, agents
from tests.support.bench_commands import Bench
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.talk_script import SPOKEN, TALK, spoken

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
KEYS = ("ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENAI_API_KEY")
TALK_BY_TOOL = tuple(name for name, agent in REAL_AGENTS.items() if not hasattr(agent.plugin, "resume"))


SECONDS = "300"
"""For three starts of an agent. opencode's take 18 s of CPU time: with an eighth of a core, 120 s were too few."""


@agents("claude-code", "opencode", "qwen-code", but=TALK_BY_TOOL)
def test_a_real_agent_hears_its_user(bench: Bench, name: str) -> None:
    agent = REAL_AGENTS[name]
    environ = node_environ(bench.home.parent)
    bench.environ.update(PATH=environ["PATH"], **dict.fromkeys(KEYS, KEY))
    with ModelEndpoint(TALK, api_key=KEY) as endpoint:
        done = bench.run(
            "record", *agent.command_line(), "--benchmark", "counter", "--task", "talk",
            "--model", "scripted-1", "--base-url", agent.address(endpoint), "--timeout", SECONDS, "--json",
        )  # fmt: skip
    assert json.loads(done.stdout)["strict"] == 1.0, done.stderr
    assert spoken(bench.rows("select role, content from messages order by position")) == SPOKEN
    (episode,) = bench.rows("select usage, answer from episodes")
    asked = [request.usage for request in endpoint.answered if request.usage]
    usage = json.loads(episode["usage"])
    assert usage["output_tokens"] == sum(one.output for one in asked)
    assert usage["input_tokens"] == sum(one.input for one in asked)
    assert usage["model_calls"] == len(asked)
