"""Errors in the chat agent's requests, and those that it reports."""

import json
from typing import Any

import pytest

from mcp_bench.clients.chat.anthropic_messages import NO_TEXT, AnthropicMessages
from mcp_bench.clients.chat.provider import Settings, ToolRequest
from mcp_bench.clients.connection import Outcome
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.fault import Fault

pytestmark = pytest.mark.component

PROMPT = "Add two and three."


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize(
    "fault", [Fault(cut=0), Fault(text="{}")], ids=["no usable answer", "no answer in the API's form"]
)
def test_a_login_in_the_endpoints_url_is_never_shown(desk: Any, provider: str, fault: Fault) -> None:
    with ModelEndpoint([], fault=fault) as endpoint:
        url = endpoint.openai_url if provider == "openai" else endpoint.anthropic_url
        shown = url.rstrip("/")
        env = {f"{provider.upper()}_BASE_URL": shown.replace("://", "://me:dummy-login-1234@")}
        result = desk.run("chat", "--model", "m", "--max-retries", "0", stdin=PROMPT, env=env)
    ((kind, detail),) = result.errors
    assert kind == "endpoint" and shown in detail
    assert "dummy-login-1234" not in result.stderr + json.dumps(result.events)


def test_an_error_without_text_has_one_in_the_request() -> None:
    """Anthropic's API answers 400: content cannot be empty if `is_error` is true."""
    conversation = AnthropicMessages(Settings("m"), PROMPT, ())
    failed, done = Outcome("", is_error=True), Outcome("")
    conversation.add_results([(ToolRequest("1", "add", {}), failed), (ToolRequest("2", "add", {}), done)])
    assert [part["content"] for part in conversation.messages[-1]["content"]] == [NO_TEXT, ""]
