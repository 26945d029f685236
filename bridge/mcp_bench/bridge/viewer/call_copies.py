"""A call in forms to paste elsewhere."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping
from pprint import pformat
from typing import Any


def as_json(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return the call as the message that the agent sent."""
    params = {"name": tool, "arguments": arguments}
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, ensure_ascii=False
    )


def as_curl(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a command that sends the call to a server at `$MCP_URL`, in the session `$MCP_SESSION`."""
    return (
        'curl "$MCP_URL" -H "Mcp-Session-Id: $MCP_SESSION" -H "Content-Type: application/json" '
        f'-H "Accept: application/json, text/event-stream" -d {shlex.quote(as_json(tool, arguments))}'
    )


def as_python(tool: str, arguments: Mapping[str, Any]) -> str:
    """Return a line for a session of the MCP SDK."""
    return f"await session.call_tool({tool!r}, {pformat(dict(arguments), width=96, sort_dicts=False)})"


def arguments_only(tool: str, arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, ensure_ascii=False, indent=1)


COPIES: Mapping[str, Callable[[str, Mapping[str, Any]], str]] = {
    "json": as_json,
    "curl": as_curl,
    "python": as_python,
    "arguments": arguments_only,
}
