"""TRL's conversational rows: `messages` and `tools`, with arguments as objects.

https://huggingface.co/docs/trl/dataset_formats (tool calling). Keys without a value are left out: chat
templates test for keys, and some of them print a null as text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.facts import fact_columns, facts
from mcp_bench.recorder.trajectory import Message, ToolCall, ToolSchema, Trajectory


class Trl:
    name = "trl"
    summary = "JSON lines for TRL's SFTTrainer"
    suffix = ".jsonl"
    columns: Mapping[str, Column] = {"messages": "json list", "tools": "json list", **fact_columns()}

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return `messages`, `tools` and the facts of the episode."""
        return {
            "messages": [_message(message) for message in trajectory.messages],
            "tools": [_tool(tool) for tool in trajectory.tools],
            **facts(trajectory),
        }


def _call(call: ToolCall) -> dict[str, Any]:
    # a model's own dump takes several times as long
    function = {"name": call.function.name, "arguments": call.function.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _tool(tool: ToolSchema) -> dict[str, Any]:
    schema = tool.function
    function = {"name": schema.name, "description": schema.description, "parameters": schema.parameters}
    return {"type": "function", "function": function}


def _message(message: Message) -> dict[str, Any]:
    row: dict[str, Any] = {"role": message.role}
    if message.reasoning:
        row["reasoning_content"] = message.reasoning  # the key that chat templates use
    # templates expect a tool message to have content, even if it is empty
    if message.content or message.role == "tool":
        row["content"] = message.content
    if message.tool_calls:
        row["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        row["tool_call_id"] = message.tool_call_id
    if message.name:
        row["name"] = message.name
    if message.is_error:
        row["is_error"] = True
    return row
