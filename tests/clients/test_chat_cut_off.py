"""Answers of a model that end in the middle of a call, at their limit of tokens."""

import json
from typing import Any

import pytest

from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.component

PROMPT = "Tidy up."
OPENAI_CALL = {"id": "1", "type": "function", "function": {"name": "desk_tidy", "arguments": ""}}
OPENAI_TURN = {"role": "assistant", "content": None, "tool_calls": [OPENAI_CALL]}
ANSWERS: dict[str, dict[str, Any]] = {
    "openai": {"choices": [{"index": 0, "finish_reason": "length", "message": OPENAI_TURN}]},
    "anthropic": {
        "type": "message",
        "role": "assistant",
        "stop_reason": "max_tokens",
        "content": [{"type": "tool_use", "id": "1", "name": "desk_tidy", "input": {}}],
    },
}


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_a_call_without_its_end_is_not_made(desk: Any, provider: str) -> None:
    """Its arguments are still to come, although the tool would take none."""
    fault = Fault(text=json.dumps({"id": "1", "model": "m", **ANSWERS[provider]}), first=1)
    with ModelEndpoint(
        [script_from_reference(PROMPT, {"calls": [], "answer": "Done."})], fault=fault
    ) as endpoint:
        url = endpoint.openai_url if provider == "openai" else endpoint.anthropic_url
        env = {f"{provider.upper()}_BASE_URL": url}
        result = desk.run("chat", "--model", "m", stdin=PROMPT, env=env)
    assert (result.code, result.journal) == (0, [])
    [(text, is_error)] = result.results
    assert is_error and "limit of tokens" in text and "call desk_tidy again" in text
