"""MCP's newline-delimited JSON over any stream of bytes, as the SDK's dispatcher wants it.

Reading and writing happen in the dispatcher's own tasks: no threads, no queues in between.
"""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

import anyio
from anyio.abc import AnyByteReceiveStream, AnyByteSendStream
from mcp.shared.message import SessionMessage
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

from mcp_bench.servers.lines import read_lines


class _Closing:
    async def aclose(self) -> None:
        """The byte stream belongs to the caller: nothing to close."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        await self.aclose()
        return None


class MessageWriter(_Closing):
    """Writes one message a line; messages of concurrent handlers do not mix."""

    def __init__(self, stream: AnyByteSendStream) -> None:
        self._stream = stream
        self._lock = anyio.Lock()

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._lock:
            await self._stream.send(text.encode() + b"\n")


class MessageReader(_Closing):
    """Reads messages, and answers each line that is none with a JSON-RPC error."""

    def __init__(self, stream: AnyByteReceiveStream, writer: MessageWriter) -> None:
        self._lines = read_lines(stream)
        self._writer = writer

    async def receive(self) -> SessionMessage:
        async for line in self._lines:
            if not line.strip():
                continue
            try:
                return SessionMessage(parse(line))
            except NotAMessageError as error:
                try:
                    await self._writer.send(SessionMessage(error.reply))
                except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                    break  # nobody is there to read it
        raise anyio.EndOfStream

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None


class NotAMessageError(Exception):
    """A line that is no JSON-RPC message; `reply` is what its sender gets."""

    def __init__(self, code: int, message: str, request_id: RequestId | None) -> None:
        super().__init__(message)
        self.reply = JSONRPCError(jsonrpc="2.0", id=request_id, error=ErrorData(code=code, message=message))


def parse(line: bytes) -> JSONRPCMessage:
    """Return the message in one line.

    Raises:
        NotAMessageError: it is no JSON (-32700), or JSON but no JSON-RPC message (-32600).
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
    """Return the id of what looks like a request, so that its sender can tell which one failed."""
    value = json.loads(line)
    found = value.get("id") if isinstance(value, dict) and "method" in value else None
    return found if isinstance(found, str | int) and not isinstance(found, bool) else None
