"""The chat agent limited to one action per turn, in both dialects."""

import json
from typing import Any, cast

import pytest

from mcp_bench.clients.chat.provider import ToolRequest
from mcp_bench.clients.chat.toolbox import Toolbox
from mcp_bench.clients.connection import Connection, Tool
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step, script_from_reference

pytestmark = pytest.mark.system

PROMPT = "Add two and three, then write it down."
ADD = ScriptedCall("add", {"a": 2, "b": 3})
NOTE = ScriptedCall("note", {"text": "five", "colour": "blue"})
REFERENCE = {
    "calls": [{"name": c.name, "arguments": c.arguments} for c in (ADD, NOTE)],
    "answer": "It is five.",
}


@pytest.fixture(params=["openai", "anthropic"])
def act(request: pytest.FixtureRequest, desk: Any) -> Any:
    """Play a script; return the client's result and the endpoint's requests."""
    name = str(request.param)

    def play(script: Script) -> Any:
        with ModelEndpoint([script]) as endpoint:
            url = endpoint.openai_url if name == "openai" else endpoint.anthropic_url
            env = {f"{name.upper()}_BASE_URL": url}
            result = desk.run("chat", "--model", "m", "--one-action", stdin=PROMPT, env=env)
            return result, [request.body for request in endpoint.requests]

    return play


def test_it_solves_a_task_one_call_at_a_time(act: Any) -> None:
    result, asked = act(script_from_reference(PROMPT, REFERENCE))
    assert result.journal == [(call.name, call.arguments) for call in (ADD, NOTE)]
    assert result.final == {"type": "final", "answer": "It is five."}
    assert asked[0]["tool_choice"] in ("required", {"type": "any", "disable_parallel_tool_use": True})
    assert "think first" in json.dumps(result.events)
    assert "think first" not in json.dumps(asked[-1]), "no thoughts stay in the conversation"


def test_of_several_calls_in_a_turn_the_first_is_made(act: Any) -> None:
    result, asked = act(Script(PROMPT, (Step((ADD, NOTE)), Step(text="Done."))))
    assert result.journal == [("add", ADD.arguments)]
    assert "one action a turn" in json.dumps(asked[-1])
    assert [m["role"] for m in result.messages] == ["assistant", "tool", "assistant"]


def test_the_model_ends_with_a_tool_of_its_own(act: Any) -> None:
    result, _ = act(Script(PROMPT, (Step((ADD,)), Step((ScriptedCall("finish", {"answer": "five"}),)))))
    assert result.journal == [("add", ADD.arguments)]
    assert result.final == {"type": "final", "answer": "five"}
    assert result.messages[-1] == {"role": "assistant", "content": "five"}


@pytest.mark.parametrize(("given", "answer"), [(None, ""), (True, "true"), ({"é": [0]}, '{"é": [0]}')])
def test_an_answer_that_is_no_text_becomes_json(desk: Any, given: Any, answer: str) -> None:
    with ModelEndpoint([Script(PROMPT, (Step((ScriptedCall("finish", {"answer": given}),)),))]) as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.openai_url}
        result = desk.run("chat", "--model", "m", "--one-action", stdin=PROMPT, env=env)
    assert result.final == {"type": "final", "answer": answer}


def test_an_ending_that_cannot_be_read_is_made_again(desk: Any) -> None:
    bad, good = ScriptedCall("finish", '{"answer": "it is "5""}'), ScriptedCall("finish", {"answer": "five"})
    with ModelEndpoint([Script(PROMPT, (Step((bad,)), Step((good,))))]) as endpoint:
        env = {"OPENAI_BASE_URL": endpoint.openai_url}
        result = desk.run("chat", "--model", "m", "--one-action", stdin=PROMPT, env=env)
    assert result.final == {"type": "final", "answer": "five"}
    assert "call finish again" in json.dumps(endpoint.requests[-1].body)


def test_a_servers_tool_of_that_name_can_be_called() -> None:
    """APIs refuse two tools of one name, and a call of it would end the work."""
    connection = Connection(cast("Any", None), [Tool("finish", "Finish a report.", {})])
    toolbox = Toolbox(connection, one_action=True)
    theirs, own = (tool.name for tool in toolbox.offered)
    assert theirs != own == "finish"
    call = ToolRequest("1", theirs, {})
    assert (toolbox.answer([call]), toolbox.called(call).name) == (None, "finish")


def test_thinking_has_no_place_in_it(desk: Any) -> None:
    result = desk.run(
        "chat", "--model", "m", "--one-action", "--provider=anthropic", "--thinking=adaptive",
        "--base-url=http://127.0.0.1:9", stdin=PROMPT,
    )  # fmt: skip
    assert (result.code, result.errors[0][0]) == (2, "usage")
