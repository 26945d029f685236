"""Removal of reasoning."""

from __future__ import annotations

from itertools import zip_longest

from mcp_bench.recorder.trajectory import Message, Trajectory


def without_reasoning(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory without reasoning, and without turns that contain nothing else.

    Such a turn stays, empty, where the user speaks after it: with it, the agent had ended its turn.
    """
    following = [message.role for message in trajectory.messages[1:]]
    kept = [
        message.model_copy(update={"reasoning": None})
        for message, after in zip_longest(trajectory.messages, following)
        if after == "user" or not _is_only_reasoning(message)
    ]
    return trajectory.model_copy(update={"messages": kept})


def _is_only_reasoning(message: Message) -> bool:
    return message.role == "assistant" and not message.content and not message.tool_calls
