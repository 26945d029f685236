"""Real agents with a real third-party server: the MCP project's everything server, from npm.

Only the model is fake, a scripted endpoint on 127.0.0.1.
"""

import json

import pytest

from tests.support.agents.node_clis import node_environ
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

pytestmark = pytest.mark.system

KEY = "dummy-key-0123456789"
PROMPT = "Have the server repeat: hello, wire."
SCRIPT = Script(
    PROMPT,
    (Step((ScriptedCall("echo", {"message": "hello, wire"}),), reasoning="It has a tool for that."), Step(text="It said so.")),
)  # fmt: skip


@pytest.fixture
def record(bench):
    """Record one prompt with an agent and the server; return the episode."""
    environ = node_environ(bench.home.parent)
    bench.environ.update(PATH=environ["PATH"], OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY)

    def work(agent: str, server: str) -> dict:
        with ModelEndpoint([SCRIPT], api_key=KEY) as endpoint:
            url = endpoint.anthropic_url if agent == "claude-code" else endpoint.openai_url
            done = bench.run(
                "record", "--server", server, "--agent", agent, "--prompt", PROMPT, "--model", "scripted-1",
                "--base-url", url, "--timeout", "120",
            )  # fmt: skip
        assert "recorded, not graded" in done.stderr
        (episode,) = bench.rows("select * from episodes")
        return episode

    return work


@pytest.mark.parametrize("agent", ["codex", "claude-code", "chat"])
def test_a_real_agent_with_a_real_server_is_recorded(bench, record, agent: str) -> None:
    episode = record(agent, "mcp-server-everything stdio")
    assert (episode["invalid"], episode["termination"]) == (None, "agent_exit")
    (call,) = bench.rows("select * from call_results")
    assert (call["tool"], call["outcome"]) == ("echo", "ok")
    assert json.loads(call["arguments"]) == {"message": "hello, wire"}
    assert "hello, wire" in call["result"]
    roles = [row["role"] for row in bench.rows("select role from messages order by position")]
    assert roles == ["user", "assistant", "tool", "assistant"]
    assert "echo" in [tool["function"]["name"] for tool in json.loads(episode["tools"])]
    assert KEY.encode() not in (bench.run_folder / "recordings.db").read_bytes()
