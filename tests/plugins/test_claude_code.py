"""What is particular about Claude Code, with the real program. The rest: `test_agent_conformance.py`."""

from collections.abc import Callable

import pytest

from mcp_bench.plugins.claude_code import agent as claude_code
from mcp_bench.plugins.claude_code.agent import ClaudeCode
from mcp_bench.plugins.contracts import McpServer
from tests.support.agents.agent_attempt import Attempt
from tests.support.desk.desk_script import PROMPT, check_usage
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import Script, ScriptedCall, Step

pytestmark = pytest.mark.system

Make = Callable[..., Attempt]


def test_unknown_price_leaves_the_cost_open(finished_by: Callable) -> None:
    assert finished_by("claude-code").transcript.usage.cost_usd is None


def test_cost_of_a_model_with_a_price(attempt: Make, endpoint: ModelEndpoint) -> None:
    transcript = attempt(ClaudeCode()).run(endpoint.anthropic_url, model="claude-sonnet-4-5")
    assert transcript.model == "claude-sonnet-4-5"
    check_usage(transcript, endpoint)
    usage = transcript.usage
    assert usage is not None
    assert usage.input_tokens is not None
    assert usage.output_tokens is not None
    assert usage.cached_tokens is not None
    # dollars for a million tokens: 3 in, 0.30 from the cache, 15 out
    plain = usage.input_tokens - usage.cached_tokens
    price = (3 * plain + 0.3 * usage.cached_tokens + 15 * usage.output_tokens) / 1e6
    assert usage.cost_usd == pytest.approx(price)


def test_tool_behind_a_search_is_recorded(
    attempt: Make, endpoint: ModelEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By default, with its own tools, it offers MCP tools only after a search."""
    monkeypatch.setitem(claude_code.FIXED, "ENABLE_TOOL_SEARCH", "true")
    search = ScriptedCall("ToolSearch", {"query": "select:mcp__desk__add", "max_results": 1})
    add = ScriptedCall("add", {"a": 1, "b": 2})
    endpoint.scripts = [Script(PROMPT, (Step((search,)), Step((add,)), Step(text="Done.")))]
    work = attempt(ClaudeCode())
    transcript = work.run(endpoint.anthropic_url, tools="all", model="claude-sonnet-4-5")
    offered = ["mcp__desk__add" in request.tools for request in endpoint.requests]
    assert offered == [False, True, True]
    assert work.journal == [("add", {"a": 1, "b": 2})]
    names = [call.function.name for message in transcript.messages for call in message.tool_calls]
    assert (names, transcript.answer, transcript.fault) == (["ToolSearch", "add"], "Done.", None)


def test_call_without_approval_is_a_fault(attempt: Make, endpoint: ModelEndpoint) -> None:
    work = attempt(ClaudeCode())
    command = work.server.command
    work.server = McpServer("desk", command, ("note", "desk.tidy"))
    process = work.start(endpoint.anthropic_url)
    work.server = McpServer("desk", command, ("add", "note", "desk.tidy"))
    transcript = work.finish(process)
    assert (work.journal, transcript.answer) == ([("desk.tidy", {})], "3 and 7.")
    assert transcript.fault is not None
    assert (transcript.fault.kind, transcript.fault.detail) == ("approval_needed", "denied: add")
