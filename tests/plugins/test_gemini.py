"""What is particular about Gemini CLI. The rest: `test_agent_conformance.py`."""

from collections.abc import Callable

import pytest

from mcp_bench.plugins.gemini.session import GeminiSession, add_message, model_name, usage_of

pytestmark = pytest.mark.system


def test_results_are_read_without_its_own_words(finished_by: Callable) -> None:
    messages = finished_by("gemini").transcript.messages
    assert [message.content for message in messages if message.role == "tool"][:2] == ["3", "7"]


def test_names_of_tools() -> None:
    """It cuts out the middle of a long one."""
    assert model_name("desk", "tidy up") == "mcp_desk_tidy_up"
    long = model_name("desk", "a" * 40 + "b" * 40)
    assert long == "mcp_desk_" + "a" * 21 + "..." + "b" * 30


def test_a_picture_or_a_missing_result_hides_no_call() -> None:
    """It sends a tool's picture as a part of its own to models that cannot get it in the response."""
    answer = {"functionResponse": {"id": "1", "response": {"output": "seen"}}}
    picture = {"inlineData": {"mimeType": "image/png", "data": ""}}
    calls = [
        {"id": "1", "name": "mcp_desk_look", "args": {}, "result": [answer, picture]},
        {"id": "2", "name": "mcp_desk_look", "args": {}, "result": None},
        {"id": "3", "name": "mcp_desk_look", "args": {}, "result": [answer]},
    ]
    session = GeminiSession()
    message = {"model": "gemini", "content": "Looking.", "toolCalls": calls}
    add_message(session, message, {"mcp_desk_look": "look"}, "mcp_desk_")
    turn, *results = session.turns.messages()
    assert [call.id for call in turn.tool_calls] == ["1", "2", "3"]
    assert [(result.tool_call_id, result.content) for result in results] == [("1", "seen"), ("3", "seen")]


@pytest.mark.parametrize("without", [{"tokens": None}, {}])
def test_a_message_without_tokens_hides_no_usage(without: dict) -> None:
    counted = {"tokens": {"input": 10, "output": 2, "thoughts": 1, "cached": 4, "tool": 0, "total": 13}}
    usage = usage_of(None, [counted, without, counted])
    assert usage is not None
    assert (usage.input_tokens, usage.output_tokens, usage.model_calls) == (20, 6, 2)
