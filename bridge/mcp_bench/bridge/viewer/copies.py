"""A call, or a whole conversation, in forms to paste elsewhere."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from pprint import pformat
from typing import Any

from mcp_bench.bridge.viewer.conversation import NEVER, OPEN


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


def as_markdown(document: Mapping[str, Any]) -> str:
    """Return the conversation of what `episode_document` returned, for an issue or a chat."""
    return "\n\n".join(_parts(document)) + "\n"


def _parts(document: Mapping[str, Any]) -> Iterator[str]:
    model = f" {document['model']}" if document["model"] else ""
    yield f"# {_one_line(document['task'])}"
    about = f"{document['agent']}{model} on {document['benchmark']}, episode {document['id']}"
    grade = document["grade"]
    yield _one_line(about + (f", partial {grade['partial']:.3f}" if grade else ""))
    for message, moment in zip(document["messages"], document["timeline"], strict=True):
        if message["role"] == "tool":
            (number,) = moment["calls"]
            outcome = (document["calls"][number - 1]["outcome"] or OPEN) if number else NEVER
            said = "" if outcome == "ok" else f" ({outcome})"
            yield f"Result of call {number or '-'}{said}:"
            yield _fenced(message.get("content") or "")
            continue
        yield f"## {_heading(message, moment)}"
        if message.get("reasoning"):
            yield "\n".join(f"> {line}" for line in message["reasoning"].splitlines())
        if message.get("content"):
            yield message["content"]
        calls = message.get("tool_calls") or ()
        for call, number in zip(calls, moment["calls"] if calls else (), strict=True):
            name = _one_line(call["function"]["name"])
            yield f"Call {number or '-'}: **{name}**"
            yield _fenced(arguments_only(name, call["function"].get("arguments") or {}), "json")


def _heading(message: Mapping[str, Any], moment: Mapping[str, Any]) -> str:
    return f"Turn {moment['turn']}" if moment["turn"] else str(message["role"]).capitalize()


def _fenced(text: str, kind: str = "") -> str:
    """Return a block of code that the text cannot end."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{kind}\n{text}\n{fence}"


def _one_line(text: str) -> str:
    return " ".join(str(text).split())
