"""The `submit_answer` tool, for benchmarks that grade text."""

from __future__ import annotations

from typing import Final

from mcp_bench.servers.contracts import ToolResult
from mcp_bench.servers.worlds.object_tool import object_tool

SUBMIT_ANSWER: Final = object_tool(
    "submit_answer",
    (
        "Hand in your final answer to the user: what you found out, or a short report of what you did. "
        "Use it as your last step; a later answer replaces an earlier one. "
        "Without it, your last message is taken as the answer."
    ),
    ("answer",),
    answer={"type": "string", "description": "The whole text of the answer."},
)

ANSWER_TAKEN: Final = ToolResult(text="The answer was handed in.")
"""The result of `submit_answer`. It must not reveal whether the answer is right."""
