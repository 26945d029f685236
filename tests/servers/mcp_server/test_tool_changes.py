"""A world whose tools change: clients of both eras are notified and see the new ones."""

import json
from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.mcp_server.server import WorldSession
from tests.support.notebook import NotebookWorld, tool

pytestmark = [pytest.mark.anyio, pytest.mark.unit]

CHANGED = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}


class Doors(NotebookWorld):
    """Opening the door adds a tool; breaking it gives tools that cannot be served."""

    changes_tools = True

    def __init__(self) -> None:
        super().__init__(0)
        self.table: Sequence[ToolSpec] = [tool("unlock", "x"), tool("break", "x")]

    def tools(self) -> Sequence[ToolSpec]:
        return self.table

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == "unlock":
            self.table = [
                tool("unlock", "x"),
                tool("break", "x"),
                tool("enter", "x", room={"type": "integer"}),
            ]
        if name == "break":
            self.table = [tool("reset", "x")]
        return ToolResult(text=f"{name} {sorted(arguments)}", tools_changed=name != "enter")


class Silent(Doors):
    changes_tools = False


def request(rpc_id: object, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}


HELLO = request(
    0,
    "initialize",
    protocolVersion="2025-11-25",
    capabilities={},
    clientInfo={"name": "raw", "version": "1"},
)


async def test_new_tools_are_served_and_announced_before_the_answer(raw: Any) -> None:
    session = WorldSession(Doors())
    async with raw(session) as mine, raw(session) as other, raw(session) as deaf:
        for connection in (mine, other, deaf):
            hello = await connection.ask(HELLO)
            assert hello["result"]["capabilities"] == {"tools": {"listChanged": True}}
        for connection in (mine, other):
            assert len((await connection.ask(request(1, "tools/list")))["result"]["tools"]) == 2
        refused = await mine.ask(request(2, "tools/call", name="enter", arguments={"room": 1}))
        assert "no tool 'enter'" in refused["result"]["content"][0]["text"]
        assert await mine.ask(request(3, "tools/call", name="unlock", arguments={})) == CHANGED
        assert (await mine.next())["id"] == 3
        assert await other.next() == CHANGED
        listed = await other.ask(request(4, "tools/list"))
        assert [one["name"] for one in listed["result"]["tools"]] == ["unlock", "break", "enter"]
        refused = await mine.ask(request(5, "tools/call", name="enter", arguments={"room": "a"}))
        assert "must be integer" in refused["result"]["content"][0]["text"]
        entered = await mine.ask(request(6, "tools/call", name="enter", arguments={"room": 1}))
        assert entered["result"]["content"][0]["text"] == "enter ['room']"
        # the same tools again are no change, and who never listed hears nothing
        assert (await mine.ask(request(7, "tools/call", name="unlock", arguments={})))["id"] == 7
        assert (await deaf.ask(request(8, "ping")))["id"] == 8


async def test_subscribers_since_2026_are_notified(connect: Any) -> None:
    session = WorldSession(Doors())
    async with connect(session, "2026-07-28") as one, connect(session, "2026-07-28") as two:
        async with two.listen(tools_list_changed=True) as events:
            await one.call_tool("unlock", {})
            with anyio.fail_after(20):
                async for event in events:
                    assert type(event).__name__ == "ToolsListChanged"
                    break
        assert [found.name for found in (await two.list_tools()).tools] == ["unlock", "break", "enter"]
    assert session.tools_listeners == []


async def test_connection_with_a_subscription_ends_at_once(connect: Any) -> None:
    session = WorldSession(Doors())
    with anyio.fail_after(20):
        async with connect(session, "2026-07-28") as client:
            events = client.listen(tools_list_changed=True)
            await events.__aenter__()
            await client.call_tool("unlock", {})
            await events.__aexit__(None, None, None)


@pytest.mark.parametrize("world", [Doors(), Silent()])
async def test_bad_new_tools_leave_the_old_ones(
    world: Doors, raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    session = WorldSession(world)
    async with raw(session) as connection:
        await connection.ask(HELLO)
        await connection.ask(request(1, "tools/list"))
        answer = await connection.ask(request(2, "tools/call", name="break", arguments={}))
        assert answer["result"]["content"][0]["text"] == "break []" and not answer["result"].get("isError")
        assert len((await connection.ask(request(3, "tools/list")))["result"]["tools"]) == 2
    assert "tool 'reset' has a name that is kept" in caplog.text


async def test_world_that_did_not_announce_changes_nothing_on_the_wire(
    raw: Any, caplog: pytest.LogCaptureFixture
) -> None:
    session = WorldSession(Silent())
    async with raw(session) as connection:
        assert (await connection.ask(HELLO))["result"]["capabilities"] == {"tools": {"listChanged": False}}
        await connection.ask(request(1, "tools/list"))
        assert (await connection.ask(request(2, "tools/call", name="unlock", arguments={})))["id"] == 2
        listed = await connection.ask(request(3, "tools/list"))
        assert len(json.dumps(listed).split("enter")) == 2
    assert "changes_tools = True" in caplog.text
