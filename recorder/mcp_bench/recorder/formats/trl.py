"""TRL's conversational rows: `messages` and `tools`, with arguments as objects.

https://huggingface.co/docs/trl/dataset_formats (tool calling). Keys without a value are left out: chat
templates test for keys, and some of them print a null as text. Only beside calls can a text be left out.

With images, the rows are those of a vision data set. TRL recognises it by the key `images`, and fills its
images into the messages of the user only; a tool's message has its own (`prepare_multimodal_messages` of TRL
1.16 keeps them). So `images` is an empty list, and each image a part of the content in which it was returned.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.conversations.images import data_url, image_bytes, image_text, parts
from mcp_bench.recorder.formats import Column, ImagesAs
from mcp_bench.recorder.formats.facts import fact_columns, facts
from mcp_bench.recorder.formats.image_files import image_path
from mcp_bench.recorder.trajectory import Message, ToolCall, ToolSchema, Trajectory
from mcp_bench.servers.contracts import Image


class Trl:
    name = "trl"
    summary = "JSON lines for TRL's SFTTrainer"
    suffix = ".jsonl"

    def __init__(self, images: ImagesAs = "text") -> None:
        """Choose what rows have of images: with `text`, the rows are for models that read text only."""
        self.images = images
        of_images: dict[str, Column] = {} if images == "text" else {"images": "json list"}
        self.columns: Mapping[str, Column] = {
            "messages": "json list",
            "tools": "json list",
            **of_images,
            **fact_columns(),
        }

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return `messages`, `tools` and the facts of the episode."""
        rows = [_message(message) for message in trajectory.messages]
        of_images: dict[str, Any] = {}
        if self.images != "text":
            of_images["images"] = []
            for row, message in zip(rows, trajectory.messages, strict=True):
                if "content" in row:  # parts everywhere: Arrow has one type for a column
                    row["content"] = [self._part(part) for part in parts(message)]
        return {
            "messages": rows,
            "tools": [_tool(tool) for tool in trajectory.tools],
            **of_images,
            **facts(trajectory),
        }

    def _part(self, part: str | Image) -> dict[str, Any]:
        if isinstance(part, str):
            return {"type": "text", "text": part}
        if (data := image_bytes(part)) is None:
            return {"type": "text", "text": image_text(part)}
        return {
            "type": "image",
            "image": data_url(part) if self.images == "base64" else image_path(part, data),
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
    # templates print the content of every message without calls, even if it is empty
    if message.content or not message.tool_calls:
        row["content"] = message.content or ""
    if message.tool_calls:
        row["tool_calls"] = [_call(call) for call in message.tool_calls]
    if message.tool_call_id:
        row["tool_call_id"] = message.tool_call_id
    if message.name:
        row["name"] = message.name
    if message.is_error:
        row["is_error"] = True
    return row
