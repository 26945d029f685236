"""The tool `reply_to_user`, for worlds whose user speaks again.

Any agent can use a tool, whether or not it can continue a session. A trajectory shows the exchange as turns
of assistant and user (`mcp_bench.recorder.conversations.user_turns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mcp_bench.recorder.conversations.user_turns import CONVERSATION, LEFT, REPLY_TOOL
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.contracts import JSON, Converses, Grade, ToolResult, ToolSpec, World

REPLY_TO_USER: Final = ToolSpec(
    name=REPLY_TOOL,
    description=(
        "Say something to the user, and get what the user says to it. The user reads nothing else of what "
        "you write. Use it for every question and for every report, until the user has left."
    ),
    input_schema={
        "type": "object",
        "properties": {"message": {"type": "string", "description": "What you say to the user."}},
        "required": ["message"],
        "additionalProperties": False,
    },
)


def conversing(world: World) -> World:
    """Return the world with the tool `reply_to_user`, if its user speaks again."""
    return ConversingWorld(world, world) if isinstance(world, Converses) else world


def instructed(planned: PlannedEpisode, world: World) -> PlannedEpisode:
    """Return the episode with instructions for a conversation, if the world's user speaks again."""
    if not isinstance(world, Converses):
        return planned
    system = "\n\n".join(filter(None, (planned.system, CONVERSATION)))
    return planned.model_copy(update={"system": system})


class ConversingWorld:
    """A world with the tool `reply_to_user`."""

    def __init__(self, world: World, user: Converses) -> None:
        self._world = world
        self._user = user
        self._left = False
        self.changes_tools: bool = getattr(world, "changes_tools", False)

    def tools(self) -> Sequence[ToolSpec]:
        return [*self._world.tools(), REPLY_TO_USER]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name != REPLY_TOOL:
            return await self._world.call(name, arguments)
        if self._left:
            return ToolResult(text=LEFT, is_error=True)
        answer = await self._user.reply(str(arguments["message"]))
        self._left = answer is None
        return ToolResult(text=LEFT if answer is None else answer)

    async def grade(self, answer: str) -> Grade:
        return await self._world.grade(answer)

    async def snapshot(self) -> JSON:
        return await self._world.snapshot()

    async def close(self) -> None:
        await self._world.close()
