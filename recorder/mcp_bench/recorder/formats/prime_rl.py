"""Rows for the SFT trainer of prime-rl: `prompt` and `completion` as chat messages, `tools` as a string.

https://github.com/PrimeIntellect-ai/prime-rl parses the arguments of calls and the tools from JSON, and
trains on the messages of the assistant. It ignores other columns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.chat import chat_message
from mcp_bench.recorder.formats.facts import fact_columns, facts_apart
from mcp_bench.recorder.trajectory import Trajectory


class PrimeRL:
    name = "prime-rl"
    summary = "prompt and completion for prime-rl's SFT trainer"
    suffix = ".jsonl"
    columns: Mapping[str, Column] = {
        "prompt": "json list",
        "completion": "json list",
        "tools": "string",
        **fact_columns(),
        "failed_calls": "json list",
    }

    def row(self, trajectory: Trajectory) -> dict[str, Any]:
        """Return the messages before the agent's first turn as the prompt, and the rest as the completion."""
        messages = [chat_message(message) for message in trajectory.messages]
        start = len(list(takewhile(lambda message: message["role"] in ("system", "user"), messages)))
        tools = [tool.model_dump() for tool in trajectory.tools]
        return {
            "prompt": messages[:start],
            "completion": messages[start:],
            "tools": json.dumps(tools, ensure_ascii=False),
            **facts_apart(trajectory),
        }
