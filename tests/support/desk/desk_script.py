"""A script for the model endpoint that uses `desk_server`, and the expected results."""

from __future__ import annotations

from mcp_bench.plugins.contracts import Transcript
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

PROMPT = "Add 1 and 2 as well as 3 and 4, then write “done” down."


def script(prompt: str = PROMPT) -> Script:
    """Return two parallel calls, a call that the tool refuses, one of a tool with an odd name, and an answer."""
    return Script(
        prompt,
        (
            Step(
                (ScriptedCall("add", {"a": 1, "b": 2}), ScriptedCall("add", {"a": 3, "b": 4})),
                text="Adding.",
                reasoning="Sums are needed.",
            ),
            Step((ScriptedCall("note", {"text": "done", "colour": "green"}),), reasoning="Green — why not?"),
            Step((ScriptedCall("desk_tidy"),)),
            Step(text="3 and 7.", reasoning="That is all."),
        ),
    )


JOURNAL = [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4}), ("desk.tidy", {})]
"""Calls that the server sees. Invalid arguments never become a call."""


def check_conversation(transcript: Transcript) -> None:
    """Check the transcript of the whole script, except the wording of results, which agents change."""
    turns = [
        (m.role, m.content, m.reasoning, [(c.function.name, c.function.arguments) for c in m.tool_calls])
        for m in transcript.messages
        if m.role == "assistant"
    ]
    assert turns == [
        ("assistant", "Adding.", "Sums are needed.", [("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})]),
        ("assistant", None, "Green — why not?", [("note", {"text": "done", "colour": "green"})]),
        ("assistant", None, None, [("desk.tidy", {})]),
        ("assistant", "3 and 7.", "That is all.", []),
    ]
    results = [m for m in transcript.messages if m.role == "tool"]
    assert [(m.name, m.is_error) for m in results] == [
        ("add", False),
        ("add", False),
        ("note", True),
        ("desk.tidy", False),
    ]
    for result, words in zip(results, ("3", "7", "colour", "tidy"), strict=True):
        assert words in (result.content or "")
    calls = [c.id for m in transcript.messages for c in m.tool_calls]
    assert [m.tool_call_id for m in results] == calls
    assert transcript.answer == "3 and 7."


def check_usage(transcript: Transcript, endpoint: ModelEndpoint) -> None:
    """Check that the agent's usage is the sum of what the endpoint sent."""
    sent = [request.usage for request in endpoint.requests if request.usage]
    assert transcript.usage is not None
    assert transcript.usage.model_dump(exclude={"cost_usd"}) == {
        "input_tokens": sum(usage.input for usage in sent),
        "output_tokens": sum(usage.output for usage in sent),
        "cached_tokens": sum(usage.cached for usage in sent),
        "model_calls": len(sent),
    }
