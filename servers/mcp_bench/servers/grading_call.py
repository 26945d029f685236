"""Grade a world: with the conversation, if it reads it, and also if the agent's code ended its sandbox."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mcp_bench.servers.contracts import ChatMessage, World, WorldDefaults, with_defaults
from mcp_bench.servers.errors import SandboxEndedError
from mcp_bench.servers.grading import AssertionResult, Grade
from mcp_bench.servers.host import has_parameter


def reads_transcript(world: World) -> bool:
    """Return whether the world's `grade` has the parameter `transcript`."""
    return has_parameter(world.grade, "transcript")


async def grade_world(world: World, answer: str, transcript: Sequence[ChatMessage]) -> Grade:
    """Grade the current state of a world.

    Where what the agent left ends the sandbox in which it is judged, the agent has failed: worlds let
    `SandboxEndedError` pass.

    Args:
        transcript: the conversation. Only a world whose `grade` has this parameter gets it.

    Raises:
        TypeError: the world returned something else.
    """
    grade: Callable[..., Any] = world.grade
    try:
        found: object = await (
            grade(answer, transcript=transcript) if reads_transcript(world) else grade(answer)
        )
    except SandboxEndedError as error:
        failed = AssertionResult(name="the sandbox lasted until the grade", passed=False, detail=str(error))
        version = with_defaults(world, WorldDefaults).grader_version
        return Grade(partial=0, strict=False, assertions=(failed,), grader_version=version)
    if not isinstance(found, Grade):
        raise TypeError(f"grade returned {type(found).__name__}, not a Grade")
    return found
