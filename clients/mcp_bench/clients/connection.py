"""The connection to the MCP server, in both protocol eras."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

import anyio
import httpx2
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from mcp_bench.clients.config import HttpEntry, SocketEntry, StdioEntry
from mcp_bench.clients.events import ClientError, leaves

Entry = StdioEntry | HttpEntry | SocketEntry
Streams = tuple[MemoryObjectReceiveStream[SessionMessage | Exception], MemoryObjectSendStream[SessionMessage]]
HTTP_TIMEOUT = httpx2.Timeout(30, read=None)  # a tool can take long
MAX_SSE_EVENT = 64 * 1024 * 1024  # bytes; tool results can be large


@dataclass(frozen=True)
class Tool:
    """A tool as the server lists it. `schema` is a JSON Schema of type object."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True)
class Outcome:
    """The result of a call. `is_error` means that the tool or the server refused it."""

    text: str
    is_error: bool = False


class Connection:
    """An open connection. `tools` are listed once, when it opens."""

    def __init__(self, client: Client, tools: Sequence[Tool]) -> None:
        self.tools = tuple(tools)
        self._client = client

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool. A JSON-RPC error is an outcome, too.

        Raises:
            ClientError: the connection is closed, or the server violates the protocol.
        """
        try:
            result = await self._client.call_tool(name, dict(arguments))
        except MCPError as error:
            if error.code == types.CONNECTION_CLOSED and error.message == "Connection closed":
                raise ClientError(
                    "mcp", f"the MCP server closed the connection during a call of {name}"
                ) from error
            return Outcome(f"The server refused the call ({error.code}): {error.message}", is_error=True)
        except (RuntimeError, ValueError) as error:
            raise ClientError("mcp", f"the MCP server's answer to {name} is invalid: {error}") from error
        return Outcome(_text(result), result.is_error or False)


@asynccontextmanager
async def connect(entry: Entry, seconds: float) -> AsyncIterator[Connection]:
    """Connect, negotiate, and list the tools, all within `seconds`.

    Raises:
        ClientError: the server cannot be started or reached, does not speak MCP, or was lost over HTTP.
    """
    connected = False
    try:
        with anyio.fail_after(seconds) as limit:
            async with AsyncExitStack() as stack:
                client = await stack.enter_async_context(await _client(entry, stack))
                tools = await _list_tools(client)
                limit.deadline, connected = math.inf, True
                yield Connection(client, tools)
    except Exception as error:
        if not connected:
            reason = _reason(error, seconds)
        elif lost := next((one for one in leaves(error) if isinstance(one, httpx2.HTTPError)), None):
            reason = f"the connection was lost: {_words(lost)}"
        else:
            raise
        raise ClientError("mcp", f"MCP server {entry.name!r}: {reason}") from error


async def _client(entry: Entry, stack: AsyncExitStack) -> Client:
    if isinstance(entry, SocketEntry):
        return Client(_socket_client(entry))
    if isinstance(entry, StdioEntry):
        return Client(
            StdioServerParameters(
                command=entry.command, args=list(entry.args), env=entry.env or None, cwd=entry.cwd
            )
        )
    http = await stack.enter_async_context(httpx2.AsyncClient(headers=entry.headers, timeout=HTTP_TIMEOUT))
    return Client(streamable_http_client(entry.url, http_client=http, max_sse_event_size=MAX_SSE_EVENT))


@asynccontextmanager
async def _socket_client(entry: SocketEntry) -> AsyncIterator[Streams]:
    """Open a transport over a Unix socket, framed as stdio is."""
    incoming, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    write, outgoing = anyio.create_memory_object_stream[SessionMessage](0)
    async with await anyio.connect_unix(entry.path) as stream, incoming, read, write, outgoing:

        async def receive() -> None:
            parts: list[bytes] = []  # of a line: added up at each piece, a long one would take quadratic time
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                async for chunk in stream:
                    first, *more = chunk.split(b"\n")
                    parts.append(first)
                    for begun in more:
                        await incoming.send(_message(b"".join(parts)))
                        parts = [begun]
            await incoming.aclose()  # the session sees that the server has ended

        async def send() -> None:
            with suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):
                await stream.send(entry.token.encode() + b"\n")
                async for one in outgoing:
                    text = one.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stream.send(text.encode() + b"\n")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            tasks.start_soon(send)
            yield read, write
            tasks.cancel_scope.cancel()


def _message(line: bytes) -> SessionMessage | Exception:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError as error:
        return error


async def _list_tools(client: Client) -> list[Tool]:
    tools: list[Tool] = []
    cursor: str | None = None
    while True:
        page = await client.list_tools(cursor=cursor)
        tools += [Tool(tool.name, tool.description or "", tool.input_schema) for tool in page.tools]
        cursor = page.next_cursor
        if cursor is None:
            return tools


def _text(result: types.CallToolResult) -> str:
    if not result.content and result.structured_content is not None:
        return json.dumps(result.structured_content)
    return "\n".join(_block_text(block) for block in result.content)


def _block_text(block: types.ContentBlock) -> str:
    if isinstance(block, types.TextContent):
        return block.text
    if isinstance(block, types.EmbeddedResource) and isinstance(block.resource, types.TextResourceContents):
        return block.resource.text
    if isinstance(block, types.ResourceLink):
        return f"[resource {block.uri}]"
    return f"[{block.type}: this client reads text only]"


def _reason(error: BaseException, seconds: float) -> str:
    error = next(leaves(error))
    if isinstance(error, TimeoutError):
        return f"no answer within {seconds:g} seconds"
    return f"cannot connect: {_words(error)}"


def _words(error: BaseException) -> str:
    return str(error) or type(error).__name__
