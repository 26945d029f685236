"""The tools, and the prompt, by which an agent goes from task to task.

They tell what to do and never how well it was done.
"""

from __future__ import annotations

from typing import Final

from mcp_bench.servers.contracts import JSON, ToolSpec
from mcp_bench.servers.tool_session import PromptSpec

_NO_ARGUMENTS: Final[dict[str, JSON]] = {"type": "object", "properties": {}, "additionalProperties": False}

NEXT_TASK: Final = ToolSpec(
    name="next_task",
    description=(
        "Start the next task, and get what is to be done. Then work on it with the other tools, hand in "
        "your answer with submit_answer where there is one to give, and call finish_task when you are "
        "done. A task that is still open ends."
    ),
    input_schema=_NO_ARGUMENTS,
)
FINISH_TASK: Final = ToolSpec(
    name="finish_task",
    description="Say that you are done with the task. Nothing can be changed any more after that.",
    input_schema=_NO_ARGUMENTS,
)
CONTROL: Final = frozenset({NEXT_TASK.name, FINISH_TASK.name})

NEXT_TASK_PROMPT: Final = PromptSpec(
    name=NEXT_TASK.name, description="Start the next task. One that is still open ends."
)
