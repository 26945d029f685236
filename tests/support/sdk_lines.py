"""Send and receive the SDK's messages over a byte stream, without code of the server under test."""

from __future__ import annotations

from types import TracebackType
from typing import Self

import anyio
from anyio.abc import AnyByteReceiveStream, AnyByteSendStream
from anyio.streams.buffered import BufferedByteReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter


class _Closing:
    async def aclose(self) -> None:
        """Do nothing: the caller owns the byte stream."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> bool | None:
        return None


class MessageWriter(_Closing):
    """Writes one message per line. Messages of concurrent handlers do not mix."""

    def __init__(self, stream: AnyByteSendStream) -> None:
        self._stream = stream
        self._lock = anyio.Lock()

    async def send(self, item: SessionMessage, /) -> None:
        text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
        async with self._lock:
            await self._stream.send(text.encode() + b"\n")


class MessageReader(_Closing):
    """Reads messages. Every line must be a message."""

    def __init__(self, stream: AnyByteReceiveStream) -> None:
        self._stream = BufferedByteReceiveStream(stream)

    async def receive(self) -> SessionMessage:
        try:
            line = await self._stream.receive_until(b"\n", 1 << 28)
        except (anyio.IncompleteRead, anyio.BrokenResourceError, anyio.ClosedResourceError):
            raise anyio.EndOfStream from None
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> SessionMessage:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None
