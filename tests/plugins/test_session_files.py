"""Sessions of the real agents, imported from the files that they keep themselves."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.plugins.claude_code.agent import ClaudeCode
from mcp_bench.plugins.codex.agent import Codex
from mcp_bench.plugins.contracts import Agent
from mcp_bench.recorder.cli.import_ import import_
from tests.support.agents.agent_attempt import Attempt
from tests.support.desk.desk_script import PROMPT
from tests.support.model_endpoint.endpoint import ModelEndpoint

pytestmark = pytest.mark.system

Make = Callable[..., Attempt]


@pytest.mark.parametrize(
    ("plugin", "url", "name"), [(Codex, "openai_url", "codex"), (ClaudeCode, "anthropic_url", "claude-code")]
)
def test_a_session_is_what_its_transcript_tells(
    bench_home: Path, attempt: Make, endpoint: ModelEndpoint, plugin: type[Agent], url: str, name: str
) -> None:
    work = attempt(plugin())
    transcript = work.run(getattr(endpoint, url))
    for _ in range(2):  # the second time adds nothing
        result = CliRunner().invoke(import_, [str(work.home), "--json"])
        assert result.exit_code == 0, (result.output, result.exception)
        assert json.loads(result.stdout)["format"] == name
    with closing(sqlite3.connect(next(bench_home.glob("runs/*/recordings.db")))) as db:
        (episode,) = db.execute("SELECT agent, model, prompt, answer, usage FROM episodes").fetchall()
        rows = db.execute(
            "SELECT role, content, reasoning, tool_calls, is_error FROM messages ORDER BY position"
        )
        messages = [
            dict(zip(("role", "content", "reasoning", "tool_calls", "is_error"), row, strict=True))
            for row in rows
        ]
    assert episode[:4] == (name, "scripted", PROMPT, transcript.answer)
    assert json.loads(episode[4])["output_tokens"] == transcript.usage.output_tokens  # type: ignore[union-attr]
    assert messages[0]["content"] == PROMPT
    # Claude Code's file has the names that suit the model's API
    as_told = [
        [(call.function.name.replace(".", "_"), call.function.arguments) for call in message.tool_calls]
        for message in transcript.messages
        if message.tool_calls
    ]
    assert calls(messages) == as_told
    expected = [(m.role, m.content, m.reasoning) for m in transcript.messages if m.role == "assistant"]
    assert [
        (m["role"], m["content"], m["reasoning"]) for m in messages if m["role"] == "assistant"
    ] == expected
    assert [bool(m["is_error"]) for m in messages if m["role"] == "tool"] == [
        m.is_error for m in transcript.messages if m.role == "tool"
    ]


def calls(messages: list[dict[str, Any]]) -> list[list[tuple[str, Any]]]:
    found = [json.loads(message["tool_calls"]) for message in messages if message["tool_calls"]]
    return [
        [(call["function"]["name"].replace(".", "_"), call["function"]["arguments"]) for call in made]
        for made in found
    ]
