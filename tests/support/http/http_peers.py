"""Servers and clients for tests of the HTTP proxy, and the proxy itself."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import ASGIApp

from mcp_bench.bridge.http.listen import bind, listen
from mcp_bench.bridge.proxy.http import serve_http_proxy
from mcp_bench.recorder.records import RunInfo, new_id, now_us
from mcp_bench.recorder.runs.run_folder import RunFolder

LOOPBACK = "127.0.0.1"
TIMEOUT = 120.0
"""Seconds after which a hanging test fails."""


@dataclass
class Proxy:
    """A recording proxy and its database."""

    url: str
    run: RunFolder

    def rows(self, query: str, *values: object) -> list[dict[str, Any]]:
        """Query the recording, after all frames are flushed."""
        if self.run.is_open:
            self.run.recording.flush()
        path = self.run.path / "recordings.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(query, values)]

    def bodies(self, direction: str) -> list[bytes]:
        rows = self.rows("select body from frames where direction = ? order by id", direction)
        return [body if isinstance(body := row["body"], bytes) else body.encode() for row in rows]


def proxy_run() -> RunInfo:
    return RunInfo(
        id=new_id("run"),
        created_us=now_us(),
        benchmark="server",
        benchmark_version="-",
        agent="proxy",
        agent_version="-",
        isolation="none",
        home="native",
        tools="all",
        graded=False,
    )


@contextlib.asynccontextmanager
async def recording_proxy(server: str, root: Path, **options: Any) -> AsyncGenerator[Proxy]:
    """Run a proxy in front of `server`. Leaving the block ends its episodes."""
    with anyio.fail_after(TIMEOUT), RunFolder.create(proxy_run(), root=root) as run:
        async with anyio.create_task_group() as tasks:
            serve = partial(serve_http_proxy, server, LOOPBACK, 0, run.recording, **options)
            yield Proxy(await tasks.start(serve), run)
            tasks.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, **options: Any) -> AsyncGenerator[int]:
    """Serve an ASGI app and yield its port."""
    with contextlib.closing(bind(LOOPBACK, 0)) as listener:
        async with anyio.create_task_group() as tasks:
            await tasks.start(partial(listen, app, listener, drain=1, **options))
            yield listener.getsockname()[1]
            tasks.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def sdk_server(server: MCPServer, **options: Any) -> AsyncGenerator[str]:
    """Serve the SDK's streamable HTTP and yield the URL. `options` go to its session manager."""
    manager = StreamableHTTPSessionManager(server._lowlevel_server, **options)
    async with manager.run(), serving(manager.asgi_app) as port:
        yield f"http://{LOOPBACK}:{port}/mcp"


def echo_server() -> MCPServer:
    server = MCPServer("echo", log_level="CRITICAL")

    @server.tool()
    def echo(text: str) -> str:
        return text

    @server.tool()
    def repeat(text: str, times: int) -> str:
        return text * times

    @server.tool()
    async def counted(ctx: Context) -> str:
        await ctx.report_progress(1, 2, "half")
        return "all"

    return server


@dataclass
class Script:
    """One connection of a server that sends exactly the bytes that a test wants."""

    stream: anyio.abc.SocketStream
    request: bytes = b""

    async def read_request(self) -> bytes:
        """Return the head and body of the next request."""
        while b"\r\n\r\n" not in self.request:
            self.request += await self.stream.receive()
        head, _, body = self.request.partition(b"\r\n\r\n")
        length = next(
            (int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if b"content-length:" in line),
            0,
        )
        while len(body) < length:
            body += await self.stream.receive()
        self.request = body[length:]
        return head + b"\r\n\r\n" + body[:length]

    async def say(self, *parts: bytes) -> None:
        for part in parts:
            await self.stream.send(part)

    async def begin_events(self, *extra: bytes) -> None:
        """Begin an SSE response; `chunk` continues it."""
        headers = [b"HTTP/1.1 200 OK", b"content-type: text/event-stream", b"transfer-encoding: chunked"]
        await self.say(b"\r\n".join([*headers, *extra, b"", b""]))

    async def chunk(self, data: bytes) -> None:
        await self.say(b"%x\r\n%s\r\n" % (len(data), data))


@dataclass
class ScriptedServer:
    port: int = 0
    path: str = "/mcp"

    @property
    def url(self) -> str:
        return f"http://{LOOPBACK}:{self.port}{self.path}"


@contextlib.asynccontextmanager
async def scripted_server(play: Callable[[Script], Awaitable[None]]) -> AsyncIterator[ScriptedServer]:
    """Serve connections with `play`; each is closed when it returns."""

    async def handle(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                await play(Script(stream))

    listener = await anyio.create_tcp_listener(local_host=LOOPBACK)
    async with listener, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, handle)
        yield ScriptedServer(listener.extra(anyio.abc.SocketAttribute.local_port))
        tasks.cancel_scope.cancel()


def post(port: int, body: bytes, *headers: str, path: str = "/mcp") -> bytes:
    """Return the bytes of a POST request."""
    lines = [f"POST {path} HTTP/1.1", f"Host: {LOOPBACK}:{port}", "Content-Type: application/json",
             "Accept: application/json, text/event-stream", *headers, f"Content-Length: {len(body)}"]  # fmt: skip
    return "\r\n".join([*lines, "", ""]).encode() + body
