"""Agents that are launched again when the user of a world speaks: their output has several launches."""

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.plugins.claude_code.agent import ClaudeCode
from mcp_bench.plugins.contracts import AgentOutput, McpServer, Transcript
from mcp_bench.plugins.qwen_code.agent import QwenCode

pytestmark = pytest.mark.unit

ID = "01234567-0123-0123-0123-0123456789ab"
INIT = {
    "type": "system",
    "subtype": "init",
    "model": "large",
    "session_id": ID,
    "mcp_servers": [{"name": "desk", "status": "connected"}],
}
CLAUDE_MODEL = {
    "inputTokens": 100,
    "outputTokens": 10,
    "cacheReadInputTokens": 0,
    "cacheCreationInputTokens": 0,
}
CLAUDE_END = {"type": "result", "total_cost_usd": 0.1, "modelUsage": {"large": CLAUDE_MODEL}}
CLAUDE_RETRY = {"type": "system", "subtype": "api_retry", "error_status": 529, "error": "overloaded"}
QWEN_END = {"type": "result", "is_error": False, "permission_denials": []}
QWEN_FAILED = {"event.name": "qwen-code.api_error", "status_code": 500, "error_message": "down"}


def read(
    agent: ClaudeCode | QwenCode, folder: Path, events: list[dict[str, Any]], log: str, lines: list[Any]
) -> Transcript:
    """Read events on stdout, and lines in the agent's own file at the path `log`."""
    for path, objects in ((folder / "stdout", events), (folder / log, lines), (folder / "stderr", [])):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(one) + "\n" for one in objects))
    output = AgentOutput(folder / "stdout", folder / "stderr", folder, folder, -9, {})
    return agent.read(output, McpServer("desk", ("server",), ("add",)))


def test_claude_code_cut_off_in_its_second_launch(tmp_path: Path) -> None:
    """The result of the first launch says nothing about the second one, and lacks its usage."""
    usage = {"input_tokens": 40, "output_tokens": 4}
    said: list[dict[str, Any]] = [
        {"type": "assistant", "message": {"id": name, "model": "large", "content": [], "usage": usage}}
        for name in ("m1", "m2")
    ]
    events = [INIT, said[0], CLAUDE_END, INIT, said[1], CLAUDE_RETRY]
    transcript = read(ClaudeCode(), tmp_path, events, f".claude/projects/work/{ID}.jsonl", said)
    assert transcript.fault is not None
    assert (transcript.fault.kind, "529" in transcript.fault.detail) == ("endpoint_error", True)
    assert transcript.usage is not None
    assert (transcript.usage.input_tokens, transcript.usage.model_calls) == (80, 2)


@pytest.mark.parametrize(
    ("events", "kind"),
    [([INIT, QWEN_END, INIT], "endpoint_error"), ([INIT, QWEN_END, INIT, QWEN_END], None)],
)
def test_qwen_code_cut_off_in_its_second_launch(
    tmp_path: Path, events: list[dict[str, Any]], kind: str | None
) -> None:
    """Its own file has the failed request, which only the result of the same launch may excuse."""
    failed = {"type": "system", "subtype": "ui_telemetry", "systemPayload": {"uiEvent": QWEN_FAILED}}
    fault = read(QwenCode(), tmp_path, events, f".qwen/projects/work/chats/{ID}.jsonl", [failed]).fault
    assert (fault.kind if fault else None) == kind
