"""Build the SDK's server for any tool session: it handles the protocol, the session handles the tools."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.subscriptions import ListenHandler, SubscriptionBus
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    Prompt,
    PromptMessage,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestId,
    TextContent,
    TextResourceContents,
    Tool,
)
from mcp_types import Resource as ListedResource

from mcp_bench.servers.errors import BenchError, UnknownNameError, suggestion
from mcp_bench.servers.mcp_server.tool_result import progress_in_json, to_mcp
from mcp_bench.servers.mcp_server.tool_session import Prompts, Resource, ToolSession
from mcp_bench.servers.progress import reporting_to

logger = logging.getLogger(__name__)

OnExecute = Callable[[RequestId], object]
"""Called with the JSON-RPC id of a call when the call starts to execute on the world."""

Context = ServerRequestContext[Any, Any]


SessionOf = Callable[[Context], Awaitable[ToolSession]]
"""Returns the session that a request belongs to, for a server with many sessions (streamable HTTP)."""

PromptsOf = Callable[[Context], Awaitable[Prompts]]
"""Returns the prompts that are available to a request."""


def build_server(
    session: ToolSession | SessionOf,
    *,
    name: str,
    on_execute: OnExecute | None = None,
    prompts: Prompts | PromptsOf | None = None,
    resources: Sequence[Resource] = (),
    changes: SubscriptionBus | None = None,
) -> Server[Any]:
    """Return an MCP server of a session's tools, of prompts and resources if given, and of nothing else.

    Args:
        name: shown to the agent; must not reveal anything about the task or its grading.
        changes: changes of the tools, for clients since 2026-07-28, which subscribe to them.
    """

    async def session_of(ctx: Context) -> ToolSession:
        return await session(ctx) if callable(session) else session

    async def list_tools(ctx: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        refuse_cursor(params)
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

        with reporting_to(progress_in_json(ctx.session.report_progress)):
            try:
                found = await session_of(ctx)
                return to_mcp(await found.call(params.name, params.arguments or {}, begins))
            except Exception as error:  # sessions return call errors as results, so this is a bug
                logger.exception("call of %s", params.name)
                raise MCPError(code=INTERNAL_ERROR, message="Internal server error") from error

    server: Server[Any] = Server(
        name,
        version="1",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_subscriptions_listen=None if changes is None else ListenHandler(changes),
    )
    if prompts is not None:
        add_prompts(server, prompts)
    if resources:
        add_resources(server, resources)
    return server


def refuse_cursor(params: PaginatedRequestParams | None) -> None:
    """Refuse a page that this server never offered: all its lists have one page."""
    if params is not None and params.cursor:
        raise MCPError(code=INVALID_PARAMS, message="Unknown cursor: this list has one page only.")


def add_prompts(server: Server[Any], prompts: Prompts | PromptsOf) -> None:
    async def prompts_of(ctx: Context) -> Prompts:
        return await prompts(ctx) if callable(prompts) else prompts

    async def list_prompts(ctx: Context, params: PaginatedRequestParams) -> ListPromptsResult:
        refuse_cursor(params)
        found = await prompts_of(ctx)
        return ListPromptsResult(
            prompts=[Prompt(name=prompt.name, description=prompt.description) for prompt in found.prompts]
        )

    async def get_prompt(ctx: Context, params: GetPromptRequestParams) -> GetPromptResult:
        try:
            text = await (await prompts_of(ctx)).prompt(params.name)
        except BenchError as error:
            code = INVALID_PARAMS if isinstance(error, UnknownNameError) else INTERNAL_ERROR
            raise MCPError(code=code, message=str(error)) from error
        return GetPromptResult(
            messages=[PromptMessage(role="user", content=TextContent(type="text", text=text))]
        )

    server.add_request_handler("prompts/list", PaginatedRequestParams, list_prompts)
    server.add_request_handler("prompts/get", GetPromptRequestParams, get_prompt)


def add_resources(server: Server[Any], resources: Sequence[Resource]) -> None:
    texts = {resource.uri: resource for resource in resources}

    async def list_resources(ctx: Context, params: PaginatedRequestParams) -> ListResourcesResult:
        refuse_cursor(params)
        return ListResourcesResult(
            resources=[
                ListedResource(
                    uri=one.uri, name=one.name, description=one.description, mime_type=one.media_type
                )
                for one in resources
            ]
        )

    async def read_resource(ctx: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        if (found := texts.get(params.uri)) is None:
            message = f"There is no resource {params.uri!r}{suggestion(params.uri, texts)}."
            raise MCPError(code=INVALID_PARAMS, message=message)
        return ReadResourceResult(
            contents=[TextResourceContents(uri=found.uri, mime_type=found.media_type, text=found.text)]
        )

    server.add_request_handler("resources/list", PaginatedRequestParams, list_resources)
    server.add_request_handler("resources/read", ReadResourceRequestParams, read_resource)
