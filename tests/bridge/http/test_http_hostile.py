"""Slow clients and endless requests are dropped, while others are served."""

from __future__ import annotations

from pathlib import Path

import anyio
import anyio.abc
import httpx2
import pytest
from mcp.server.mcpserver import MCPServer
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from tests.support.http.http_peers import LOOPBACK, TIMEOUT, recording_proxy, sdk_server, serving

pytestmark = [pytest.mark.anyio, pytest.mark.component]

HEAD = b"POST / HTTP/1.1\r\nHost: here\r\n"


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    while (message := await receive())["type"] == "http.request":
        if not message["more_body"]:
            await PlainTextResponse("hello")(scope, receive, send)
            return


async def rest(stream: anyio.abc.SocketStream) -> bytes:
    """Return all remaining bytes, until the other side closes."""
    came = b""
    with anyio.fail_after(TIMEOUT):
        try:
            while True:
                came += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return came


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (b"", b""),
        (HEAD, b""),
        (b"GET / HTTP/1.1\r\nHost: here\r\n\r\n" + HEAD, b"HTTP/1.1 200 OK"),
        (HEAD + b"Content-Length: 10\r\n\r\nx", b"HTTP/1.1 408 Request Timeout"),
        (HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n", b"HTTP/1.1 408 Request Timeout"),
    ],
    ids=["nothing", "half a head", "half of the next head", "half a body", "half a chunked body"],
)
async def test_slow_requests_are_dropped(said: bytes, status: bytes) -> None:
    async with serving(hello, patience=0.5) as port, httpx2.AsyncClient() as other:
        async with await anyio.connect_tcp(LOOPBACK, port) as slow:
            if said:
                await slow.send(said)
            assert (await other.get(f"http://{LOOPBACK}:{port}/")).text == "hello"
            assert (await rest(slow)).partition(b"\r\n")[0] == status
        assert (await other.get(f"http://{LOOPBACK}:{port}/")).text == "hello"


async def test_an_endless_head_is_dropped() -> None:
    async with serving(hello) as port, await anyio.connect_tcp(LOOPBACK, port) as client:
        await client.send(HEAD)
        with anyio.fail_after(TIMEOUT), pytest.raises(anyio.BrokenResourceError):
            while True:
                await client.send(b"X-More: " + b"x" * 1000 + b"\r\n")


async def test_slow_clients_do_not_lock_out_others() -> None:
    async with serving(hello, patience=0.5, max_connections=8) as port, anyio.create_task_group() as tasks:

        async def slow() -> None:
            async with await anyio.connect_tcp(LOOPBACK, port) as stream:
                await stream.send(HEAD)
                await rest(stream)

        for _ in range(8):
            tasks.start_soon(slow)
        async with httpx2.AsyncClient() as other:
            with anyio.fail_after(TIMEOUT):
                while (await other.get(f"http://{LOOPBACK}:{port}/")).status_code == 503:
                    await anyio.lowlevel.checkpoint()


NESTED = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":' + b"[" * 200_000 + b"]" * 200_000 + b"}"


async def test_a_deeply_nested_body_is_forwarded_and_recorded(tmp_path: Path) -> None:
    """Only the server parses it; no component on the way fails."""
    async with sdk_server(MCPServer("desk")) as url, recording_proxy(url, tmp_path) as proxy:
        headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        async with httpx2.AsyncClient(headers=headers, timeout=TIMEOUT) as client:
            assert (await client.post(proxy.url, content=NESTED)).status_code >= 400
            ping = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
            assert (await client.post(proxy.url, content=ping)).status_code < 500
        assert NESTED in proxy.bodies("client")


async def test_a_session_older_than_the_proxy_is_an_episode(tmp_path: Path) -> None:
    handshake = (
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18",'
        b'"capabilities":{},"clientInfo":{"name":"old","version":"1"}}}'
    )
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with sdk_server(MCPServer("desk")) as url, httpx2.AsyncClient(headers=headers) as client:
        sessions = [(await client.post(url, content=handshake)).headers["mcp-session-id"] for _ in range(2)]
        ping = b'{"jsonrpc":"2.0","id":2,"method":"ping"}'
        async with recording_proxy(url, tmp_path) as proxy:
            for session in (*sessions, sessions[0], "made-up"):
                answer = await client.post(proxy.url, content=ping, headers={"Mcp-Session-Id": session})
                assert answer.status_code == (200 if session in sessions else 404)
        counts = proxy.rows(
            "select e.invalid, count(*) as frames from episodes e join frames f on f.episode = e.id"
            " group by e.id order by e.id"
        )
    assert [(row["invalid"], row["frames"]) for row in counts] == [
        (None, 4),
        (None, 2),
        ("unknown_session", 2),
    ]
