"""Grading a world whose sandbox the agent's code ended."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bench.servers.contracts import ChatMessage
from mcp_bench.servers.errors import SandboxEndedError, SandboxError
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.grading_call import grade_world
from mcp_bench.servers.worlds.simple import SimpleWorld

pytestmark = [pytest.mark.anyio, pytest.mark.unit]


class Fails(SimpleWorld):
    grader_version = "7"

    def __init__(self, error: Exception) -> None:
        self.error = error

    async def grade(self, answer: str) -> Grade:
        raise self.error


class FailsWithTranscript(Fails):
    async def grade(self, answer: str, *, transcript: tuple[ChatMessage, ...] = ()) -> Grade:
        raise self.error


@pytest.mark.parametrize("kind", [Fails, FailsWithTranscript])
async def test_who_ends_the_judging_sandbox_has_failed(kind: type[Fails]) -> None:
    found = await grade_world(kind(SandboxEndedError("the sandbox was ended: memory")), "", ())
    assert (found.partial, found.strict, found.grader_version) == (0, False, "7")
    assert found.assertions[0].detail == "the sandbox was ended: memory"


class Says(SimpleWorld):
    def __init__(self, grade: object) -> None:
        self.said = grade

    async def grade(self, answer: str) -> Any:
        return self.said


@pytest.mark.parametrize("said", [None, 1.0, {"partial": 1, "strict": True, "grader_version": "1"}])
async def test_what_is_no_grade_is_named(said: object) -> None:
    with pytest.raises(TypeError, match=f"grade returned {type(said).__name__}, not a Grade"):
        await grade_world(Says(said), "", ())


async def test_a_sandbox_that_failed_by_itself_is_no_grade() -> None:
    with pytest.raises(SandboxError, match="no room"):
        await grade_world(Fails(SandboxError("no room")), "", ())
