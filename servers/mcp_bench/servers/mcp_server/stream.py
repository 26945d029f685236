"""Parse and write MCP's newline-delimited JSON messages."""

from __future__ import annotations

import json
import re

from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from mcp_bench.servers.mcp_server.lines import LongLine

_ID = rb'"id"\s*:\s*(-?\d{1,40}|"(?:[^"\\]|\\.){0,200}")\s*'
_SHORT = rb'"(?:jsonrpc|method)"\s*:\s*"[^"\\]{0,200}"\s*'
FIRST_ID = re.compile(rb"\s*\{\s*(?:" + _SHORT + rb",\s*)*" + _ID + rb"[,}]")
LAST_ID = re.compile(rb",\s*" + _ID + rb"(?:,\s*" + _SHORT + rb")*\}\s*$")


class NotAMessageError(Exception):
    """A line is not a JSON-RPC message. `reply` is the error for its sender."""

    def __init__(self, code: int, message: str, request_id: RequestId | None) -> None:
        super().__init__(message)
        self.reply = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def encode(message: JSONRPCMessage) -> bytes:
    """Return the line of a message, newline included."""
    return message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n"


def parse(line: bytes) -> JSONRPCMessage:
    """Return the message in one line.

    Raises:
        NotAMessageError: the line is not JSON (-32700), or JSON but not a JSON-RPC message (-32600).
    """
    try:
        message: JSONRPCMessage = jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        if error.errors()[0]["type"] == "json_invalid":
            raise NotAMessageError(PARSE_ERROR, "Parse error: the line is not JSON", None) from None
        raise NotAMessageError(
            INVALID_REQUEST, "Invalid request: not a JSON-RPC 2.0 message", request_id(line)
        ) from None
    if isinstance(message, JSONRPCNotification) and b'"id"' in line and "id" in json.loads(line):
        # the SDK would take a request with a fractional or null id for a notification
        raise NotAMessageError(INVALID_REQUEST, "Invalid request: id must be a string or an integer", None)
    return message


def request_id(line: bytes) -> RequestId | None:
    """Return the id of a message that looks like a request, so its sender knows which one failed."""
    value = from_json(line)
    found = value.get("id") if isinstance(value, dict) and "method" in value else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None


def too_long(line: LongLine, limit: int) -> NotAMessageError:
    """Return the error for a line over `limit` bytes, with the request's id if it is near either end."""
    found = FIRST_ID.match(line.head) or LAST_ID.search(line.tail)
    text = f"Invalid request: the line has {line.size} bytes, this server takes at most {limit}"
    try:
        return NotAMessageError(INVALID_REQUEST, text, from_json(found[1]) if found else None)
    except ValueError:  # not a valid JSON string
        return NotAMessageError(INVALID_REQUEST, text, None)
