"""Rows in the format of OpenAI's fine-tuning: requests to the Chat Completions API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.chat import chat_message
from mcp_bench.recorder.formats.facts import facts_apart
from mcp_bench.recorder.trajectory import Trajectory


class OpenAI:
    name = "openai"
    summary = "chat messages of OpenAI's API, with arguments as strings"
    suffix = ".jsonl"
    columns: Mapping[str, Column] = {"messages": "json list", "tools": "json list", "metadata": "json"}

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return `messages` and `tools`, with the facts in `metadata`."""
        return {
            "messages": [chat_message(message) for message in trajectory.messages],
            "tools": [tool.model_dump() for tool in trajectory.tools],
            "metadata": facts_apart(trajectory),
        }
