"""Prompts, as a real client sees them."""

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from mcp_bench.servers.errors import BenchError, UnknownNameError
from mcp_bench.servers.mcp_server.server import Context, WorldSession, build_server
from mcp_bench.servers.mcp_server.tool_session import PromptSpec, ToolSession
from tests.support.notebook import NotebookWorld

pytestmark = [pytest.mark.anyio, pytest.mark.unit]


class Menu:
    prompts = (PromptSpec(name="next_task", description="Open a task."), PromptSpec("last", "None."))

    async def prompt(self, name: str) -> str:
        if name == "last":
            raise BenchError("no task is left")
        if name != "next_task":
            raise UnknownNameError("prompt", name, ["next_task"])
        return "Write hello on page 3."


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_prompts_are_listed_and_returned(mode: str) -> None:
    server = build_server(WorldSession(NotebookWorld(3)), name="workspace", prompts=Menu())
    async with Client(server, mode=mode) as client:
        found = (await client.list_prompts()).prompts
        assert [(prompt.name, prompt.description) for prompt in found] == [
            ("next_task", "Open a task."),
            ("last", "None."),
        ]
        messages = (await client.get_prompt("next_task")).messages
        assert [(message.role, message.content.text) for message in messages] == [  # type: ignore[union-attr]
            ("user", "Write hello on page 3.")
        ]
        with pytest.raises(MCPError, match="next_task") as unknown:
            await client.get_prompt("next_tusk")
        with pytest.raises(MCPError, match="no task is left") as exhausted:
            await client.get_prompt("last")
    assert (unknown.value.error.code, exhausted.value.error.code) == (-32602, -32603)


async def test_without_prompts_none_are_offered() -> None:
    server = build_server(WorldSession(NotebookWorld(3)), name="workspace")
    async with Client(server, mode="legacy") as client:
        assert client.server_capabilities.prompts is None


async def test_server_with_many_sessions_finds_the_right_one() -> None:
    worlds = [NotebookWorld(0), NotebookWorld(1)]
    sessions = [WorldSession(world) for world in worlds]

    async def session_of(ctx: Context) -> ToolSession:
        await anyio.lowlevel.checkpoint()
        return sessions[(ctx.meta or {}).get("number", 0)]

    async with Client(build_server(session_of, name="workspace"), mode="2026-07-28") as client:
        for number, text in enumerate(("one", "two")):
            await client.call_tool("write", {"page": 0, "text": text}, meta={"number": number})
    assert [world.pages for world in worlds] == [{0: "one"}, {0: "two"}]
