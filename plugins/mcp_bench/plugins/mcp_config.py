"""The document in which most agents are told of their MCP servers."""

from __future__ import annotations

from typing import Any

from mcp_bench.plugins.contracts import McpServer


def mcp_servers(server: McpServer) -> dict[str, Any]:
    """Return `{"mcpServers": {...}}` with one entry, on stdio or streamable HTTP."""
    if server.url is not None:
        entry: dict[str, Any] = {"type": "http", "url": server.url}
    else:
        executable, *args = server.command
        entry = {"type": "stdio", "command": executable, "args": args}
    return {"mcpServers": {server.name: entry}}
