"""Messages of the Chat Completions API, in which the arguments of a call are a JSON string."""

from __future__ import annotations

import json
from typing import Any

from mcp_bench.recorder.trajectory import Message, ToolCall


def chat_message(message: Message) -> dict[str, Any]:
    """Return a message with the keys of the API.

    Reasoning is in `reasoning_content`, which most servers of open models use.

    https://platform.openai.com/docs/api-reference/chat/create
    """
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": message.content or ""}
    row: dict[str, Any] = {"role": message.role, "content": message.content or ""}
    if message.reasoning:
        row["reasoning_content"] = message.reasoning
    if message.tool_calls:
        row["content"] = message.content or None
        row["tool_calls"] = [_call(call) for call in message.tool_calls]
    return row


def arguments_text(call: ToolCall) -> str:
    """Return the arguments as JSON text."""
    return json.dumps(call.function.arguments, ensure_ascii=False)


def _call(call: ToolCall) -> dict[str, Any]:
    function = {"name": call.function.name, "arguments": arguments_text(call)}
    return {"id": call.id, "type": "function", "function": function}
