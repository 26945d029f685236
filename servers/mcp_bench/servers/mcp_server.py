"""An MCP server over any world, for clients of both protocol eras.

Clients of 2024-11-05 to 2025-11-25 open with `initialize`, those of 2026-07-28 with requests that
carry their version; whichever comes is served. Every connection has a server of its own, and all
connections to one world share its `WorldSession`.
"""

from __future__ import annotations

from anyio.abc import AnyByteStream

from mcp_bench.servers.connection import MAX_LINE, Connection
from mcp_bench.servers.lines import read_bounded_lines
from mcp_bench.servers.sdk_server import Context, OnExecute, SessionOf, build_server
from mcp_bench.servers.tool_session import Prompts, ToolSession
from mcp_bench.servers.world_session import WorldSession

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

    Messages are lines of JSON. A line that is none, or has more than `max_line` bytes, is answered
    with a JSON-RPC error, and the connection goes on. When the stream ends, calls under way are
    cancelled.
    """
    async with Connection(
        session, name=name, send=stream.send, on_execute=on_execute, prompts=prompts, max_line=max_line
    ) as connection:
        async for line in read_bounded_lines(stream, max_line):
            await connection.receive(line)
