"""A connection answers lines and uses bounded memory."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.servers.mcp_server.connection import IDLE_TASKS, MAX_UNSENT, Connection
from mcp_bench.servers.mcp_server.lines import ENDS, LongLine, UnfinishedLine, read_bounded_lines
from mcp_bench.servers.mcp_server.server import WorldSession
from mcp_bench.servers.mcp_server.stream import too_long
from tests.support.notebook import NotebookWorld

pytestmark = pytest.mark.unit

HELLO = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "client", "version": "1"},
}


def request(rpc_id: object, method: str, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}).encode()


def call(rpc_id: object, name: str, **arguments: Any) -> bytes:
    return request(rpc_id, "tools/call", name=name, arguments=arguments)


async def settled() -> None:
    for _ in range(200):
        await anyio.lowlevel.checkpoint()


class Client:
    """Receives what a connection sends while `reads` is set."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.reads = anyio.Event()
        self.reads.set()

    async def take(self, line: bytes) -> None:
        await self.reads.wait()
        self.got.append(json.loads(line))


@asynccontextmanager
async def connected(client: Client, **options: Any) -> AsyncIterator[Connection]:
    """Yield an open connection that speaks 2025-11-25."""
    session = WorldSession(NotebookWorld(3))
    async with Connection(session, name="workspace", send=client.take, **options) as connection:
        await connection.receive(request("hello", "initialize", **HELLO))
        await settled()
        assert client.got.pop()["id"] == "hello"
        yield connection


@pytest.mark.anyio
async def test_too_long_line_is_refused_and_connection_continues() -> None:
    client = Client()
    async with connected(client, max_line=1000) as connection:
        long = call("long", "write", page=1, text="x" * 1000)
        await connection.receive(long)
        line = UnfinishedLine(1000)
        for start in range(0, len(long), 100):
            line.add(long[start : start + 100])
        await connection.receive(line.take())
        assert [answer["id"] for answer in client.got] == ["long", "long"]
        for answer in client.got:
            assert answer["error"]["code"] == -32600
            assert f"{len(long)} bytes" in answer["error"]["message"]
            assert "at most 1000" in answer["error"]["message"]
        short = call(2, "write", page=1, text="x")
        await connection.receive(short)
        await settled()
        assert client.got[-1]["result"]["content"][0]["text"] == "written"


@pytest.mark.parametrize(
    ("line", "rpc_id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"x":"%s"}}', 7),
        (b'{ "method": "tools/call", "id": "a\\"b", "params": {"x":"%s"}}', 'a"b'),
        (b'{"method":"tools/call","params":{"x":"%s"},"jsonrpc":"2.0","id":-7}\r\n', -7),
        (b'{"params":{"x":"%s"},"id":"end","method":"m","jsonrpc":"2.0"}', "end"),
        # the id is not near either end, or it is not the request's own
        (b'{"params":{"id":1,"x":"%s","id":2}}', None),
        (b'{"params":{"x":"%s"},"id":1.5}', None),
        (b'{"params":{"x":"%s"},"id":null}', None),
        (b'["id",1,"%s"]', None),
        (b'"%s,\\"id\\":5}', None),
        (b'{"id":"\\ud800","x":"%s"}', None),
    ],
)
def test_refusal_of_a_long_line_has_its_request_id(line: bytes, rpc_id: object) -> None:
    whole = line % (b"x" * (2 * ENDS))
    unfinished = UnfinishedLine(100)
    unfinished.add(whole)
    found = unfinished.take()
    assert isinstance(found, LongLine)
    assert found.size == len(whole)
    assert too_long(found, 100).reply.id == rpc_id


class Chunks:
    def __init__(self, chunks: list[bytes]) -> None:
        self._chunks = iter(chunks)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        for chunk in self._chunks:
            return chunk
        raise anyio.EndOfStream


@given(
    st.lists(st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), max_size=8),
    st.lists(st.integers(0, 100), max_size=12),
    st.integers(0, 8),
)
def test_lines_do_not_depend_on_chunk_boundaries(lines: list[bytes], cuts: list[int], limit: int) -> None:
    data = b"".join(line + b"\n" for line in lines)
    places = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    chunks = [data[start:end] for start, end in pairwise(places)]

    async def read() -> list[bytes | LongLine]:
        return [line async for line in read_bounded_lines(Chunks(chunks), limit)]  # type: ignore[arg-type]

    expected = [line if len(line) <= limit else LongLine(len(line), line, b"") for line in lines]
    assert [
        LongLine(line.size, line.head, b"") if isinstance(line, LongLine) else line
        for line in anyio.run(read)
    ] == expected


@pytest.mark.anyio
@pytest.mark.parametrize("method", ["ping", "tools/call"])
async def test_server_stops_reading_if_client_does_not_read(method: str) -> None:
    client = Client()
    params = {"name": "read", "arguments": {"page": 1}} if method == "tools/call" else {}
    taken = 0

    async with connected(client) as connection, anyio.create_task_group() as tasks:
        client.reads = anyio.Event()

        async def give() -> None:
            nonlocal taken
            for number in range(3 * MAX_UNSENT):
                await connection.receive(request(number, method, **params))
                await settled()
                taken += 1

        tasks.start_soon(give)
        while taken < MAX_UNSENT:
            await anyio.lowlevel.checkpoint()
        for _ in range(20):
            await settled()
        assert taken <= MAX_UNSENT + 2
        client.reads.set()
    assert sorted(answer["id"] for answer in client.got) == list(range(3 * MAX_UNSENT))


@pytest.mark.anyio
async def test_waiting_calls_are_limited_by_their_bytes() -> None:
    client, limit = Client(), 100_000
    taken = 0
    async with connected(client, max_line=limit) as connection, anyio.create_task_group() as tasks:
        await connection.receive(call("first", "wait"))

        async def give() -> None:
            nonlocal taken
            for number in range(20):
                await connection.receive(call(number, "write", page=number, text="x" * 20_000))
                taken += 1

        tasks.start_soon(give)
        await settled()
        assert taken == 3  # each call has its own overhead
        # the cancellation is processed although the calls wait
        given_up = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "first"}}
        await connection.receive(json.dumps(given_up).encode())
        while taken < 20:
            await anyio.lowlevel.checkpoint()
        await settled()
    assert [answer["id"] for answer in client.got] == list(range(20))


@pytest.mark.anyio
async def test_many_concurrent_calls_leave_few_idle_tasks() -> None:
    client = Client()
    async with connected(client) as connection:
        before = len(anyio.get_running_tasks())
        for number in range(500):
            await connection.receive(call(number, "read", page=number))
        while len(client.got) < 500:
            await anyio.lowlevel.checkpoint()
        await settled()
        assert sorted(answer["id"] for answer in client.got) == list(range(500))
        assert len(anyio.get_running_tasks()) <= before + IDLE_TASKS


@pytest.mark.anyio
async def test_running_calls_are_answered_at_end_unless_cancelled() -> None:
    client = Client()
    async with connected(client) as connection:
        await connection.receive(call(1, "wait"))
        await connection.receive(call(2, "wait"))
        await connection.receive(call("3", "wait"))
        await settled()
        given_up = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 3}}
        await connection.receive(json.dumps(given_up).encode())
    errors = {answer["id"]: answer["error"] for answer in client.got}
    assert errors == {number: {"code": -32000, "message": "Connection closed"} for number in (1, 2)}


@pytest.mark.anyio
@pytest.mark.parametrize("ticks", range(12))
@pytest.mark.parametrize("last", ["read", "wait"])
async def test_requests_are_answered_whenever_the_input_ends(last: str, ticks: int) -> None:
    """Includes requests that the SDK handles: before the answer to the handshake, these are all calls."""
    client = Client()
    session = WorldSession(NotebookWorld(3))
    async with Connection(session, name="workspace", send=client.take) as connection:
        await connection.receive(request("hello", "initialize", **HELLO))
        for _ in range(ticks):
            await anyio.lowlevel.checkpoint()
        await connection.receive(call(1, last, **({"page": 1} if last == "read" else {})))
    answers = {answer["id"]: answer for answer in client.got}
    assert len(client.got) == 2 and answers.keys() == {"hello", 1}
    if last == "wait":
        assert answers[1]["error"] == {"code": -32000, "message": "Connection closed"}


@pytest.mark.anyio
async def test_end_does_not_wait_for_client_that_never_reads() -> None:
    client = Client()
    with anyio.fail_after(30):
        async with connected(client) as connection:
            client.reads = anyio.Event()
            await connection.receive(request("ping", "ping"))
            await connection.receive(call("hot", "read", page=1))
            await settled()
    assert client.got == []


@pytest.mark.anyio
async def test_failing_store_ends_the_connection() -> None:
    async def fail(line: bytes) -> None:
        raise OSError("disk full")

    with pytest.raises(BaseExceptionGroup) as raised:
        async with Connection(WorldSession(NotebookWorld(3)), name="workspace", send=fail) as connection:
            await connection.receive(request("hello", "initialize", **HELLO))
            await anyio.sleep_forever()
    assert "disk full" in repr(raised.value)
