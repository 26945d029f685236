"""Rows in the format of OpenAI's fine-tuning: requests to the Chat Completions API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.conversations.images import image_text
from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.chat import chat_message
from mcp_bench.recorder.formats.facts import facts_apart
from mcp_bench.recorder.trajectory import Message, Trajectory


class OpenAI:
    name = "openai"
    summary = "chat messages of OpenAI's API, with arguments as strings"
    suffix = ".jsonl"
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
    text = message.content or ""
    for image in message.images:
        text = text.replace(image_text(image), "", 1)
    parts: list[dict[str, Any]] = [{"type": "text", "text": text.strip()}] if text.strip() else []
    for image in message.images:
        url = f"data:{image.media_type};base64,{image.data}"
        parts.append({"type": "image_url", "image_url": {"url": url}})
    return {**row, "content": parts}
