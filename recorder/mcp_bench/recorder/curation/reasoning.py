"""Removal of reasoning."""

from __future__ import annotations

from mcp_bench.recorder.trajectory import Message, Trajectory


def without_reasoning(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory without reasoning, and without turns that contain nothing else."""
    kept = [
        message.model_copy(update={"reasoning": None})
        for message in trajectory.messages
        if not _is_only_reasoning(message)
    ]
    return trajectory.model_copy(update={"messages": kept})


def _is_only_reasoning(message: Message) -> bool:
    return message.role == "assistant" and not message.content and not message.tool_calls
