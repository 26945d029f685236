"""The server with a world over real byte streams, for clients of all protocol versions."""

import json
from typing import Any

import anyio
import pytest

from mcp_bench.servers.contracts import JSON, ToolResult
from mcp_bench.servers.mcp_server.server import WorldSession
from tests.support.notebook import BENCHMARK, NotebookWorld

pytestmark = [pytest.mark.anyio, pytest.mark.unit]

HANDSHAKE_VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
TELLTALE = ("grade", "score", "reward", "task", "test", "split", "notebook", "reference")


@pytest.fixture
def world() -> NotebookWorld:
    return NotebookWorld(3)


@pytest.fixture
def session(world: NotebookWorld) -> WorldSession:
    return WorldSession(world)


def initialize(version: str = "2025-11-25") -> dict[str, Any]:
    client = {"name": "raw", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}


def call(rpc_id: object, name: str, **arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": rpc_id, "method": "tools/call", "params": params}


@pytest.mark.parametrize("mode", ["legacy", "auto", "2026-07-28"])
async def test_every_client_lists_and_calls(
    mode: str, session: WorldSession, world: Any, connect: Any
) -> None:
    async with connect(session, mode) as client:
        listed = (await client.list_tools()).tools
        assert [(t.name, t.description, t.input_schema) for t in listed] == [
            (t.name, t.description, t.input_schema) for t in world.tools()
        ]
        result = await client.call_tool("write", {"page": 3, "text": "grüß\n\u2028"})
        assert not result.is_error
        assert result.structured_content == {"page": 3}
        assert (await client.call_tool("read", {"page": 3})).content[0].text == "grüß\n\u2028"
    assert world.pages == {3: "grüß\n\u2028"}


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
async def test_every_handshake_version_is_accepted(version: str, session: Any, raw: Any) -> None:
    async with raw(session) as connection:
        hello = (await connection.ask(initialize(version)))["result"]
        assert hello["protocolVersion"] == version
        assert list(hello["capabilities"]) == ["tools"]
        assert not any(word in json.dumps(hello).lower() for word in TELLTALE)
        answer = await connection.ask(call("a", "write", page=1, text="x"))
        assert answer["id"] == "a" and not answer["result"].get("isError")


@pytest.mark.parametrize(
    ("line", "code", "rpc_id"),
    [
        (b"{", -32700, None),
        (b"\xff\xfe", -32700, None),
        (b"hello", -32700, None),
        (b"[]", -32600, None),
        (b'{"id": 7, "method": "ping"}', -32600, 7),
        (b'{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": "p", "method": "ping", "params": [1]}', -32600, "p"),
    ],
)
async def test_malformed_lines_get_errors_and_session_continues(
    line: bytes, code: int, rpc_id: object, session: WorldSession, world: Any, raw: Any
) -> None:
    async with raw(session) as connection:
        await connection.send(line)  # also before the handshake
        answer = await connection.next()
        assert (answer["error"]["code"], answer["id"]) == (code, rpc_id)
        await connection.ask(initialize())
        await connection.send(b"", b"  ", line)
        assert (await connection.next())["error"]["code"] == code
        assert (await connection.ask(call(2, "write", page=0, text="on")))["id"] == 2
    assert world.pages == {0: "on"}


async def test_a_cursor_that_was_never_given_is_refused(session: WorldSession, raw: Any) -> None:
    async with raw(session) as connection:
        await connection.ask(initialize())
        listing = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        assert "nextCursor" not in (await connection.ask(listing))["result"]
        error = (await connection.ask({**listing, "params": {"cursor": "page 2"}}))["error"]
        assert (error["code"], "one page" in error["message"]) == (-32602, True)


async def test_lines_can_arrive_split_or_joined(session: Any, world: Any, raw: Any) -> None:
    lines = [json.dumps(message).encode() for message in (initialize(), call(1, "write", page=0, text="ab"))]
    data = b"\n".join(lines) + b"\n"
    async with raw(session) as connection:
        for start in range(0, len(data), 7):
            await connection.stream.send(data[start : start + 7])
        assert {(await connection.next())["id"], (await connection.next())["id"]} == {0, 1}
    assert world.pages == {0: "ab"}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("wrote", {}, ["no tool 'wrote'", "write"]),
        ("write", {"page": 3}, ["missing argument 'text'"]),
        ("write", {"page": "3", "text": "x"}, ["argument 'page' must be integer", "string '3'"]),
        ("write", {"page": 3, "text": "x", "txt": "y"}, ["unknown argument 'txt'", "'text'"]),
        ("write", {"page": -1, "text": "x"}, ["argument 'page'", "-1"]),
    ],
)
async def test_invalid_call_is_explained_and_changes_nothing(
    name: str, arguments: dict[str, Any], words: list[str], session: Any, world: Any, connect: Any
) -> None:
    executed: list[object] = []
    async with connect(session, on_execute=executed.append) as client:
        result = await client.call_tool(name, arguments)
    assert result.is_error
    assert all(word in result.content[0].text for word in words), result.content[0].text
    assert (world.pages, world.most_busy, executed) == ({}, 0, [])


async def test_raising_tool_gives_error_without_traceback(
    session: WorldSession, connect: Any, caplog: pytest.LogCaptureFixture
) -> None:
    async with connect(session) as client:
        result = await client.call_tool("fail", {"message": "no ink"})
        assert (await client.call_tool("write", {"page": 1, "text": "x"})).content[0].text == "written"
    assert result.is_error
    assert result.content[0].text == "fail failed: ValueError: no ink"
    assert "no ink" in caplog.text


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_invalid_unicode_in_results_is_repaired(mode: str, connect: Any) -> None:
    class Torn(NotebookWorld):
        async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
            return ToolResult(text="a\ud83d\ude00b\udc00", structured={"\ud800": ["\udfff", {"x": 1}]})

    async with connect(WorldSession(Torn(3)), mode) as client:
        for _ in range(2):
            result = await client.call_tool("read", {"page": 1})
            assert result.content[0].text == "a\U0001f600b\ufffd"
            assert result.structured_content == {"\ufffd": ["\ufffd", {"x": 1}]}


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_exiting_tool_gives_error_and_server_continues(mode: str, connect: Any) -> None:
    async with connect(WorldSession(NotebookWorld(3)), mode) as client:
        result = await client.call_tool("quit", {})
        assert result.is_error and "quit failed: SystemExit" in result.content[0].text
        assert (await client.call_tool("write", {"page": 1, "text": "x"})).content[0].text == "written"


async def test_a_ten_megabyte_result_arrives_whole(session: WorldSession, connect: Any) -> None:
    async with connect(session) as client:
        result = await client.call_tool("repeat", {"text": "0123456789", "times": 1_000_000})
    assert result.content[0].text == "0123456789" * 1_000_000


async def test_calls_of_all_connections_run_in_reported_order(
    session: WorldSession, world: Any, raw: Any
) -> None:
    order: list[object] = []
    async with raw(session, order.append) as one, raw(session, order.append) as two:
        for connection in (one, two):
            await connection.ask(initialize())
        for connection, label in ((one, "one"), (two, "two")):
            lines = [json.dumps(call(f"{label}{n}", "write", page=n, text=label)).encode() for n in range(9)]
            await connection.send(*lines)
        answers = [(await connection.next())["id"] for connection in (one, two) for _ in range(9)]
    assert sorted(map(str, order)) == sorted(answers)
    assert world.most_busy == 1
    last = {str(rpc_id)[3:]: str(rpc_id)[:3] for rpc_id in order}
    assert {str(page): text for page, text in world.pages.items()} == last


async def test_a_cancelled_call_frees_the_world(session: WorldSession, raw: Any) -> None:
    began = anyio.Event()
    async with raw(session, lambda rpc_id: began.set()) as connection:
        await connection.ask(initialize())
        await connection.send(json.dumps(call(1, "wait")).encode())
        await began.wait()
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
        await connection.send(json.dumps(cancel).encode(), json.dumps(call(2, "read", page=9)).encode())
        answers = {}
        while 2 not in answers:
            answer = await connection.next()
            answers[answer["id"]] = answer
    assert answers[2]["result"]["content"][0]["text"] == "page 9 is empty"


async def test_client_that_disconnects_in_a_call_frees_the_world(session: WorldSession, raw: Any) -> None:
    began = anyio.Event()
    async with raw(session, lambda rpc_id: began.set()) as connection:
        await connection.ask(initialize())
        await connection.send(json.dumps(call(1, "wait")).encode())
        await began.wait()
    with anyio.fail_after(5):
        assert (await session.call("read", {"page": 9})).is_error


async def test_client_solves_a_task(connect: Any) -> None:
    world = await BENCHMARK.open("page-3")
    assert (await world.grade("")).partial == 0
    async with connect(WorldSession(world)) as client:
        await client.call_tool("write", {"page": 3, "text": "hello"})
        assert (await world.grade("")).partial == 0.5
        await client.call_tool("submit_answer", {"answer": "done"})
    assert (await world.grade("something else")).strict
