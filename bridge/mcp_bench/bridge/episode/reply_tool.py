"""Worlds whose user speaks again.

An agent that can continue a session ends its turn with a message, and gets the user's answer as the next
one. The others get the tool `reply_to_user`: any agent can use a tool. Both are recorded as calls of that
tool, so that a replay can make them again. A trajectory shows turns of assistant and user
(`mcp_bench.recorder.conversations.user_turns`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from mcp_bench.plugins.contracts import Agent, Resumes
from mcp_bench.recorder.conversations.user_turns import CONVERSATION, LEFT, REPLY_TOOL
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.servers.contracts import (
    JSON,
    Converses,
    Grade,
    ToolResult,
    ToolSpec,
    World,
    WorldDefaults,
    with_defaults,
)
from mcp_bench.servers.mcp_server.tool_result import to_mcp
from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.worlds.object_tool import object_tool

REPLY_TO_USER: Final = object_tool(
    REPLY_TOOL,
    (
        "Say something to the user, and get what the user says to it. The user reads nothing else of what "
        "you write. Use it for every question and for every report, until the user has left."
    ),
    ("message",),
    message={"type": "string", "description": "What you say to the user."},
)


def conversing(world: World, *, listed: bool = True) -> World:
    """Return the world with the tool `reply_to_user`, if its user speaks again.

    Args:
        listed: whether the agent sees the tool. One that continues its session does not.
    """
    return ConversingWorld(world, world, listed) if isinstance(world, Converses) else world


def continues(agent: Agent, world: World) -> bool:
    """Return whether an agent gets the words of a world's user as messages of its own session."""
    return isinstance(world, Converses) and isinstance(agent, Resumes)


def instructed(planned: PlannedEpisode, world: World) -> PlannedEpisode:
    """Return the episode with instructions for a conversation, if the world's user speaks again."""
    if not isinstance(world, Converses):
        return planned
    system = "\n\n".join(filter(None, (planned.system, CONVERSATION)))
    return planned.model_copy(update={"system": system})


class ConversingWorld:
    """A world with the tool `reply_to_user`."""

    def __init__(self, world: World, user: Converses, listed: bool) -> None:
        self._world = world
        self._user = user
        self._shown = [REPLY_TO_USER] if listed else []
        self._left = False
        self.changes_tools = with_defaults(world, WorldDefaults).changes_tools

    def tools(self) -> Sequence[ToolSpec]:
        return [*self._world.tools(), *self._shown]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name != REPLY_TOOL:
            return await self._world.call(name, arguments)
        if self._left:
            return ToolResult(text=LEFT, is_error=True)
        answer = await self._user.reply(str(arguments["message"]))
        self._left = answer is None
        return ToolResult(text=LEFT if answer is None else answer, tools_changed=self.changes_tools)

    async def grade(self, answer: str) -> Grade:
        return await self._world.grade(answer)

    async def snapshot(self) -> JSON:
        return await self._world.snapshot()

    async def close(self) -> None:
        await self._world.close()


async def user_turn(
    session: WorldSession, recording: Recording, episode: str, connection: int, said: str
) -> ToolResult:
    """Say to the user what the agent said at the end of its turn, and return the user's answer.

    It is recorded as a call of `reply_to_user` on a connection of its own.

    Args:
        connection: a number that no connection of the agent has.
    """
    arguments: dict[str, JSON] = {"message": said}
    params = {"name": REPLY_TOOL, "arguments": arguments}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    await recording.store(episode, connection, "client", [line(request)])
    result = await session.call_unlisted(
        REPLY_TOOL, arguments, lambda: recording.mark_executed(episode, connection, 1)
    )
    shaped = to_mcp(result).model_dump(mode="json", by_alias=True, exclude_none=True)
    await recording.store(
        episode, connection, "server", [line({"jsonrpc": "2.0", "id": 1, "result": shaped})]
    )
    recording.close_connection(episode, connection)
    return result


def line(message: dict[str, Any]) -> bytes:
    return jsonrpc.dumps(message).encode() + b"\n"
