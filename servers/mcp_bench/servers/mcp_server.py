"""An MCP server over any world, for clients of both protocol eras.

Clients of 2024-11-05 to 2025-11-25 open with `initialize`, those of 2026-07-28 with requests that
carry their version; the SDK's loop serves whichever comes. Every connection has a server of its
own, and all connections to one world share its `WorldSession`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from anyio.abc import AnyByteStream
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    RequestId,
    TextContent,
    Tool,
)

from mcp_bench.servers.contracts import ToolResult
from mcp_bench.servers.errors import BenchError, UnknownNameError
from mcp_bench.servers.mcp_stream import MessageReader, MessageWriter
from mcp_bench.servers.tool_session import Prompts, ToolSession
from mcp_bench.servers.world_session import WorldSession

__all__ = ["OnExecute", "SessionOf", "WorldSession", "build_server", "serve"]

OnExecute = Callable[[RequestId], None]
"""Gets the JSON-RPC id of a call at the moment it begins to execute on the world."""

Context = ServerRequestContext[Any, Any]


SessionOf = Callable[[Context], Awaitable[ToolSession]]
"""Finds the session that a request belongs to, where one server has many (streamable HTTP)."""


def build_server(
    session: ToolSession | SessionOf,
    *,
    name: str,
    on_execute: OnExecute | None = None,
    prompts: Prompts | None = None,
) -> Server[Any]:
    """Return an MCP server with the tools of a session, its prompts if there are any, and nothing else.

    `name` is shown to the agent: it must tell nothing of the task or of how it is graded.
    """

    async def session_of(ctx: Context) -> ToolSession:
        return await session(ctx) if callable(session) else session

    async def list_tools(ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(
            tools=[
                Tool(name=tool.name, description=tool.description, input_schema=dict(tool.input_schema))
                for tool in (await session_of(ctx)).tools
            ]
        )

    async def call_tool(ctx: Context, params: CallToolRequestParams) -> CallToolResult:
        def begins() -> None:
            if on_execute is not None and ctx.request_id is not None:
                on_execute(ctx.request_id)

        found = await session_of(ctx)
        return to_mcp(await found.call(params.name, params.arguments or {}, begins))

    server: Server[Any] = Server(name, version="1", on_list_tools=list_tools, on_call_tool=call_tool)
    if prompts is not None:
        add_prompts(server, prompts)
    return server


def add_prompts(server: Server[Any], prompts: Prompts) -> None:
    async def list_prompts(ctx: Context, params: PaginatedRequestParams) -> ListPromptsResult:
        return ListPromptsResult(
            prompts=[Prompt(name=prompt.name, description=prompt.description) for prompt in prompts.prompts]
        )

    async def get_prompt(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        try:
            text = await prompts.prompt(params.name)
        except BenchError as error:
            code = INVALID_PARAMS if isinstance(error, UnknownNameError) else INTERNAL_ERROR
            raise MCPError(code=code, message=str(error)) from error
        return GetPromptResult(
            messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))]
        )

    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)


def to_mcp(result: ToolResult) -> CallToolResult:
    return CallToolResult(
        content=[TextContent(type="text", text=result.text)],
        structured_content=result.structured,
        is_error=result.is_error,
    )


async def serve(
    session: ToolSession,
    stream: AnyByteStream,
    *,
    name: str,
    on_execute: OnExecute | None = None,
) -> None:
    """Serve one connection until its stream ends. The caller closes the stream.

    Messages are lines of JSON. A line that is none is answered with a JSON-RPC error, and the
    connection goes on. When the stream ends, calls under way are cancelled.
    """
    server = build_server(session, name=name, on_execute=on_execute)
    writer = MessageWriter(stream)
    await server.run(MessageReader(stream, writer), writer, server.create_initialization_options())
