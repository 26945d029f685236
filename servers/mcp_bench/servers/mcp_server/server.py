"""An MCP server for any world and for all protocol versions since 2024-11-05.

Clients of versions 2024-11-05 to 2025-11-25 open with `initialize`; those of 2026-07-28 send requests that
carry their version. Both are served. Every connection has its own server; all connections to one world share
its `WorldSession`.
"""

from __future__ import annotations

from anyio.abc import AnyByteStream

from mcp_bench.servers.mcp_server.connection import MAX_LINE, Connection
from mcp_bench.servers.mcp_server.lines import read_bounded_lines
from mcp_bench.servers.mcp_server.sdk_server import Context, OnExecute, SessionOf, build_server
from mcp_bench.servers.mcp_server.tool_session import Prompts, ToolSession
from mcp_bench.servers.mcp_server.world_session import WorldSession

__all__ = ["Connection", "Context", "OnExecute", "SessionOf", "WorldSession", "build_server", "serve"]


async def serve(
    session: ToolSession,
    stream: AnyByteStream,
    *,
    name: str,
    on_execute: OnExecute | None = None,
    prompts: Prompts | None = None,
    max_line: int = MAX_LINE,
) -> None:
    """Serve one connection until its stream ends. The caller closes the stream.

    Messages are lines of JSON. An invalid line, or one of more than `max_line` bytes, gets a JSON-RPC error,
    and the connection continues. When the stream ends, running calls are cancelled.
    """
    async with Connection(
        session, name=name, send=stream.send, on_execute=on_execute, prompts=prompts, max_line=max_line
    ) as connection:
        async for line in read_bounded_lines(stream, max_line):
            await connection.receive(line)
