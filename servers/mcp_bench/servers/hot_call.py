"""The message that nearly all traffic consists of: a well-formed `tools/call`.

It is checked and answered by the SDK's own functions, so that the bytes are the SDK's; what it is spared
is the SDK's dispatcher, streams and contexts, which cost many times as much. Whatever is not plainly
well-formed is none of ours: the SDK gets it as it came, and finds the words for what is wrong.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import anyio
from mcp.server.lowlevel.server import Server
from mcp.shared.inbound import InboundModernRoute, classify_inbound_request
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    PROTOCOL_VERSION_META_KEY,
    SERVER_INFO_META_KEY,
    CallToolRequestParams,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    JSONRPCResponse,
    ProgressToken,
    RequestId,
)
from mcp_types.methods import serialize_server_result, validate_client_request
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from mcp_bench.servers.contracts import JSON, ToolResult
from mcp_bench.servers.mcp_stream import encode
from mcp_bench.servers.tool_result import structured_json, to_mcp, well_formed

METHOD = "tools/call"
HINT = b'"tools/call"'
SLOT = re.compile(rb'\{?"@(id|text|structured)@"(?::true\})?')
OVERHEAD = 4096
"""Bytes that a waiting call takes beside its line, about."""


@dataclass(slots=True, eq=False)
class HotCall:
    """One call, from its line to its answer."""

    id: RequestId
    version: str
    """Protocol version that its answer is shaped for."""
    name: str
    arguments: dict[str, JSON]
    progress_token: ProgressToken | None
    weight: int
    """Bytes that it takes while it waits, about."""
    scope: anyio.CancelScope | None = None
    cancelled: bool = False
    """The client gave it up: it gets no answer."""

    def cancel(self) -> None:
        self.cancelled = True
        if self.scope is not None:
            self.scope.cancel()


def learned_version(result: dict[str, Any]) -> str | None:
    """Return the version that a connection speaks, where a result of the SDK tells it.

    The handshake's result names it; every result of the modern era, and none before, has a
    `resultType` (specification 2026-07-28: basic).
    """
    if isinstance(version := result.get("protocolVersion"), str):
        return version
    return LATEST_MODERN_VERSION if "resultType" in result else None


def read_call(line: bytes, version: str | None) -> HotCall | None:
    """Return the call in a line, None where the SDK is to look at it.

    `version` is what the connection speaks, None as long as no handshake or request was accepted.
    """
    if version is None or HINT not in line:
        return None
    try:
        message = from_json(line)
    except ValueError:
        return None
    match message:
        case {
            "jsonrpc": "2.0",
            "id": str() | int() as rpc_id,
            "method": "tools/call",
            "params": dict() as params,
        }:
            if len(message) != 4 or isinstance(rpc_id, bool):
                return None
        case _:
            return None
    spoken = request_version(params, version)
    if spoken is None:
        return None
    try:
        validate_client_request(METHOD, spoken, params)
        asked = CallToolRequestParams.model_validate(params, by_name=False)
    except ValidationError:
        return None
    return HotCall(
        rpc_id,
        spoken,
        asked.name,
        asked.arguments or {},
        progress_token_from_params(params),
        len(line) + OVERHEAD,
    )


def request_version(params: dict[str, Any], version: str) -> str | None:
    """Return the version that a request is in, None where it does not fit its connection."""
    if version in MODERN_PROTOCOL_VERSIONS:
        route = classify_inbound_request({"method": METHOD, "params": params})
        return route.protocol_version if isinstance(route, InboundModernRoute) else None
    meta = params.get("_meta")
    enveloped = isinstance(meta, dict) and PROTOCOL_VERSION_META_KEY in meta
    return None if enveloped else version


class AnswerLines:
    """Writes the answers of one server: the SDK shapes one line of each kind, whose slots are then filled."""

    def __init__(self, server: Server[Any]) -> None:
        self._server = server
        self._shapes: dict[tuple[str, bool, bool], list[bytes]] = {}

    def line(self, call: HotCall, result: ToolResult) -> bytes:
        """Return the line that answers a call, byte for byte as the SDK would write it."""
        kind = call.version, result.is_error, result.structured is not None
        shape = self._shapes.get(kind)
        if shape is None:
            shape = self._shapes[kind] = self._shape(*kind)
        slots = {
            b"id": to_json(call.id),
            b"text": to_json(well_formed(result.text)),
            b"structured": structured_json(result.structured or {}),
        }
        # literal pieces and names of slots take turns
        return b"".join([slots[piece] if index % 2 else piece for index, piece in enumerate(shape)])

    def _shape(self, version: str, is_error: bool, structured: bool) -> list[bytes]:
        slot: dict[str, JSON] | None = {"@structured@": True} if structured else None
        sample = to_mcp(ToolResult(text="@text@", is_error=is_error, structured=slot))
        dumped = sample.model_dump(by_alias=True, mode="json", exclude_none=True)
        result = serialize_server_result(METHOD, version, dumped)
        if version in MODERN_PROTOCOL_VERSIONS:
            result["_meta"] = {SERVER_INFO_META_KEY: self._server.server_info_stamp}
        return SLOT.split(encode(JSONRPCResponse(jsonrpc="2.0", id="@id@", result=result)))


def error_line(call: HotCall, code: int, message: str) -> bytes:
    return encode(JSONRPCError(jsonrpc="2.0", id=call.id, error=ErrorData(code=code, message=message)))


def progress_line(token: ProgressToken, done: float, total: float | None, message: str | None) -> bytes:
    params: dict[str, Any] = {"progressToken": token, "progress": done}
    params |= {key: value for key, value in (("total", total), ("message", message)) if value is not None}
    return encode(JSONRPCNotification(jsonrpc="2.0", method="notifications/progress", params=params))
