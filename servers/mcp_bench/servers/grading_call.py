"""Grade a world with the conversation, if it reads it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mcp_bench.servers.contracts import ChatMessage, World
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.host import has_parameter


def reads_transcript(world: World) -> bool:
    """Return whether the world's `grade` has the parameter `transcript`."""
    return has_parameter(world.grade, "transcript")


async def grade_world(world: World, answer: str, transcript: Sequence[ChatMessage]) -> Grade:
    """Grade the current state of a world.

    Args:
        transcript: the conversation. Only a world whose `grade` has this parameter gets it.
    """
    if not reads_transcript(world):
        return await world.grade(answer)
    grade: Callable[..., Any] = world.grade
    found: Grade = await grade(answer, transcript=transcript)
    return found
