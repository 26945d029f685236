"""Rows without what agents thought."""

from __future__ import annotations

from mcp_bench.recorder.trajectory import Message, Trajectory


def without_reasoning(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory without reasoning; a turn of nothing else is gone."""
    kept = [
        message.model_copy(update={"reasoning": None})
        for message in trajectory.messages
        if not _is_only_thought(message)
    ]
    return trajectory.model_copy(update={"messages": kept})


def _is_only_thought(message: Message) -> bool:
    return message.role == "assistant" and not message.content and not message.tool_calls
