"""The chat agent's command line and its requirements."""

from typing import Any

import pytest

from mcp_bench.clients.chat.__main__ import choose_provider
from mcp_bench.clients.chat.toolbox import model_names
from mcp_bench.clients.connection import Tool
from tests.support.model_endpoint.endpoint import ModelEndpoint
from tests.support.model_endpoint.script import script_from_reference

pytestmark = pytest.mark.component

PROMPT = "Say hello."


@pytest.mark.parametrize(
    ("args", "stdin", "env", "words"),
    [
        (["--model", "m"], PROMPT, {}, "set OPENAI_API_KEY"),
        (
            ["--model", "m", "--provider", "anthropic"],
            PROMPT,
            {"OPENAI_API_KEY": "k"},
            "set ANTHROPIC_API_KEY",
        ),
        (["--model", "m", "--thinking", "adaptive"], PROMPT, {"OPENAI_API_KEY": "k"}, "anthropic only"),
        (["--model", "m"], " \n", {"OPENAI_API_KEY": "k"}, "stdin is empty"),
        ([], PROMPT, {}, "--model"),
        (["--model", "m", "--max-steps", "0"], PROMPT, {}, "less than 1"),
        (["--model", "m", "--temperature", "nan"], PROMPT, {}, "nan is no number"),
    ],
)
def test_wrong_use(desk: Any, args: list[str], stdin: str, env: dict[str, str], words: str) -> None:
    result = desk.run("chat", *args, stdin=stdin, env=env)
    assert result.code == 2
    assert words in result.stderr and "Traceback" not in result.stderr


def test_a_key_that_no_header_can_have_is_not_shown(desk: Any) -> None:
    with ModelEndpoint([]) as endpoint:
        env = {"OPENAI_API_KEY": "dummy-key-1234\n", "OPENAI_BASE_URL": endpoint.openai_url}
        result = desk.run("chat", "--model", "m", "--max-retries", "0", stdin=PROMPT, env=env)
    [(kind, detail)] = result.errors
    assert kind == "login" and "OPENAI_API_KEY cannot be sent" in detail
    assert "dummy-key-1234" not in result.stderr + detail


def test_an_endpoint_of_ones_own_needs_no_key(desk: Any) -> None:
    with ModelEndpoint([script_from_reference(PROMPT, {"calls": [], "answer": "hello"})]) as endpoint:
        result = desk.run("chat", "--model", "m", "--base-url", endpoint.openai_url, stdin=PROMPT)
    assert (result.code, result.final["answer"]) == (0, "hello")


def test_thinking_is_asked_for(desk: Any) -> None:
    with ModelEndpoint([script_from_reference(PROMPT, {"calls": [], "answer": "hello"})]) as endpoint:
        options = ["--provider", "anthropic", "--base-url", endpoint.anthropic_url, "--thinking", "9000"]
        assert desk.run("chat", "--model", "m", *options, stdin=PROMPT).code == 0
        body = endpoint.requests[0].body
    assert body["thinking"] == {"type": "enabled", "budget_tokens": 9000}
    assert body["max_tokens"] > 9000, "the API refuses a budget that is no less"


@pytest.mark.parametrize(
    ("result", "names", "chosen"),
    [
        (None, [], "openai"),
        (None, ["ANTHROPIC_API_KEY"], "anthropic"),
        (None, ["ANTHROPIC_BASE_URL"], "anthropic"),
        (None, ["ANTHROPIC_API_KEY", "OPENAI_BASE_URL"], "openai"),
        ("anthropic", ["OPENAI_API_KEY"], "anthropic"),
        ("openai", ["ANTHROPIC_API_KEY"], "openai"),
    ],
)
def test_the_provider_follows_from_what_is_set(result: str | None, names: list[str], chosen: str) -> None:
    assert choose_provider(result, dict.fromkeys(names, "x")) == chosen


def test_tool_names_fit_every_api_and_stay_apart() -> None:
    long = "x" * 100
    names = ["plain", "a.b", "a/b", "a_b", long, f"{long}y"]
    named = model_names([Tool(name, "", {}) for name in names])
    assert [tool.name for tool in named.values()] == names
    assert next(iter(named)) == "plain"
    assert all(
        len(name) <= 64 and set(name) <= set("abcdefghijklmnopqrstuvwxyz_0123456789") for name in named
    )
