"""Rows in the format of OpenAI's fine-tuning: requests to the Chat Completions API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.conversations.images import data_url, parts
from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.chat import chat_message
from mcp_bench.recorder.formats.facts import facts_apart
from mcp_bench.recorder.trajectory import Message, Trajectory
from mcp_bench.servers.contracts import Image


class OpenAI:
    name = "openai"
    summary = "chat messages of OpenAI's API, with arguments as strings"
    suffix = ".jsonl"
    images = "base64"
    columns: Mapping[str, Column] = {"messages": "json list", "tools": "json list", "metadata": "json"}

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return `messages` and `tools`, with the facts in `metadata`.

        Images of results are content parts with data URLs.
        """
        return {
            "messages": [_message(message) for message in trajectory.messages],
            "tools": [tool.model_dump() for tool in trajectory.tools],
            "metadata": facts_apart(trajectory),
        }


def _message(message: Message) -> dict[str, Any]:
    row = chat_message(message)
    if not message.images:
        return row
    return {**row, "content": [_part(part) for part in parts(message)]}


def _part(part: str | Image) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": data_url(part)}}
