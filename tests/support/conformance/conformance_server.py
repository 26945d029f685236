"""An MCP server with everything that the official conformance suite tests.

`python conformance_server.py LOG` serves streamable HTTP on a free port of 127.0.0.1, prints the URL and logs
all messages to the file LOG. The suite expects these names, schemas and texts.
"""
# ruff: noqa: N803, N815

from __future__ import annotations

import base64
import json
import logging
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import anyio
import uvicorn
from mcp.server import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer, RequestStateSecurity
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    CompletionArgument,
    CompletionContext,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    PromptReference,
    RequestParams,
    ResourceTemplateReference,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

from tests.support.conformance.conformance_inputs import add_input_tools
from tests.support.http.event_store import MemoryEventStore
from tests.support.http.http_log import Logged

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
PAUSE = 0.03

server = MCPServer(
    "conformance-fixture",
    version="1",
    log_level="CRITICAL",
    request_state_security=RequestStateSecurity(keys=[b"a key of the fixture, which is no secret"]),
)


def text(value: str) -> TextContent:
    return TextContent(type="text", text=value)


def embedded(uri: str, mime_type: str, value: str) -> EmbeddedResource:
    contents = TextResourceContents(uri=uri, mime_type=mime_type, text=value)
    return EmbeddedResource(type="resource", resource=contents)


# --- tools -----------------------------------------------------------------------------------------


@server.tool()
def test_simple_text() -> str:
    """Answers with text."""
    return "This is a simple text response for testing."


@server.tool()
def test_image_content() -> list[ImageContent]:
    """Answers with an image."""
    return [ImageContent(type="image", data=PNG, mime_type="image/png")]


@server.tool()
def test_audio_content() -> list[AudioContent]:
    """Answers with sound."""
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@server.tool()
def test_embedded_resource() -> list[EmbeddedResource]:
    """Answers with a resource."""
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@server.tool()
def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Answers with text, an image and a resource."""
    return [
        text("Multiple content types test:"),
        ImageContent(type="image", data=PNG, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", '{"test": "data", "value": 123}'),
    ]


@server.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Logs while it runs."""
    for line in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(line)
        await anyio.sleep(PAUSE)
    return "Tool with logging executed successfully"


@server.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports its progress."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        await anyio.sleep(PAUSE)
    return "done"


@server.tool()
def test_error_handling() -> str:
    """Fails."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@server.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Asks the client's model, in the stream of the call."""
    answer = await ctx.session.create_message(
        messages=[SamplingMessage(role="user", content=text(prompt))],
        max_tokens=100,
        related_request_id=ctx.request_id,
    )
    return f"LLM response: {answer.content.text if answer.content.type == 'text' else ''}"


class Reply(BaseModel):
    response: str = Field(description="User's response")


class Defaults(BaseModel):
    """A default of every primitive type (SEP-1034)."""

    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: str = Field("active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = True


def titled(**names: str) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in names.items()]


class Enums(BaseModel):
    """The five ways to write an enumeration (SEP-1330)."""

    untitledSingle: str = Field(json_schema_extra={"enum": ["active", "inactive", "pending"]})
    titledSingle: str = Field(json_schema_extra={"oneOf": titled(low="Low", medium="Medium", high="High")})
    untitledMulti: list[str] = Field(
        json_schema_extra={"items": {"type": "string", "enum": ["read", "write", "execute"]}}
    )
    titledMulti: list[str] = Field(
        json_schema_extra={"items": {"anyOf": titled(bug="Bug", feature="Feature", docs="Documentation")}}
    )
    legacyEnum: str = Field(
        json_schema_extra={"enum": ["small", "medium", "large"], "enumNames": ["Small", "Medium", "Large"]}
    )


async def elicited(ctx: Context, message: str, schema: type[BaseModel]) -> str:
    result = await ctx.elicit(message=message, schema=schema)
    content = result.data.model_dump_json() if result.action == "accept" else "{}"
    return f"action={result.action}, content={content}"


@server.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user."""
    return f"User response: {await elicited(ctx, message, Reply)}"


@server.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user, with defaults."""
    return f"Elicitation result: {await elicited(ctx, 'Please provide user information', Defaults)}"


@server.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user to choose."""
    return f"Elicitation completed: {await elicited(ctx, 'Please choose', Enums)}"


@server.tool()
async def test_reconnection(ctx: Context) -> str:
    """Closes its stream half-way (SEP-1699): the rest comes to a client that resumes it."""
    await ctx.info("Before disconnect")
    await ctx.close_sse_stream()
    await anyio.sleep(0.2)
    await ctx.info("After reconnect")
    return "Reconnection test completed"


@server.tool()
def test_x_mcp_header(
    region: Annotated[str, Field(json_schema_extra={"x-mcp-header": "Region"})] = "<none>",
) -> str:
    """Has an argument that is repeated in a header (SEP-2243)."""
    return f"region={region}"


@server.tool()
def test_missing_capability(ctx: Context) -> str:
    """Needs a client that can sample."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        needed = {"requiredCapabilities": {"sampling": {}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "sampling is needed", needed)
    return "The client can sample."


@server.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Changes the list of tools, and says so (SEP-2575)."""
    server.add_tool(lambda: "here", name="test_dynamic_tool", description="Comes and goes.")
    server.remove_tool("test_dynamic_tool")
    await ctx.notify_tools_changed()
    return "tool list changed"


@server.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Changes the list of prompts, and says so (SEP-2575)."""
    server.add_prompt(Prompt.from_function(lambda: "here", name="test_dynamic_prompt", description="Goes."))
    server.remove_prompt("test_dynamic_prompt")
    await ctx.notify_prompts_changed()
    return "prompt list changed"


JSON_SCHEMA_2020_12: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


@server.tool()
def json_schema_2020_12_tool() -> str:
    """Has a schema with the keywords of JSON Schema 2020-12, set below."""
    return "json_schema_2020_12_tool"


# the SDK only builds schemas from signatures
server._tool_manager._tools["json_schema_2020_12_tool"].parameters = JSON_SCHEMA_2020_12


# --- resources, prompts, completion ----------------------------------------------------------------


@server.resource("test://static-text")
def static_text() -> str:
    return "This is the content of the static text resource."


@server.resource("test://static-binary")
def static_binary() -> bytes:
    return base64.b64decode(PNG)


@server.resource("test://watched-resource")
def watched() -> str:
    return "Watched resource content"


@server.resource("test://template/{id}/data")
def templated(id: str) -> str:
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@server.prompt()
def test_simple_prompt() -> list[UserMessage]:
    """A prompt without arguments."""
    return [UserMessage(role="user", content=text("This is a simple prompt for testing."))]


@server.prompt()
def test_prompt_with_arguments(arg1: str, arg2: str) -> list[UserMessage]:
    """A prompt with two arguments."""
    return [UserMessage(role="user", content=text(f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"))]


@server.prompt()
def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    """A prompt with a resource in it."""
    resource = embedded(resourceUri, "text/plain", "Embedded resource content for testing.")
    return [
        UserMessage(role="user", content=resource),
        UserMessage(role="user", content=text("Please process the embedded resource above.")),
    ]


@server.prompt()
def test_prompt_with_image() -> list[UserMessage]:
    """A prompt with an image in it."""
    image = ImageContent(type="image", data=PNG, mime_type="image/png")
    return [
        UserMessage(role="user", content=image),
        UserMessage(role="user", content=text("Please analyze the image above.")),
    ]


@server.completion()
async def complete(
    ref: PromptReference | ResourceTemplateReference,
    argument: CompletionArgument,
    context: CompletionContext | None,
) -> Completion:
    return Completion(values=[], total=0, has_more=False)


async def accepted(ctx: ServerRequestContext[Any, Any], params: RequestParams) -> EmptyResult:
    return EmptyResult()


# MCPServer has no public API for these methods
for method, kind in (
    ("logging/setLevel", SetLevelRequestParams),
    ("resources/subscribe", SubscribeRequestParams),
    ("resources/unsubscribe", UnsubscribeRequestParams),
):
    server._lowlevel_server.add_request_handler(method, kind, accepted)


def main() -> None:
    logging.disable(logging.CRITICAL)
    add_input_tools(server)
    server_app = server.streamable_http_app(event_store=MemoryEventStore(), retry_interval=100)
    app = Logged(server_app, Path(sys.argv[1]))
    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    config = uvicorn.Config(app, http="h11", log_config=None, access_log=False, timeout_graceful_shutdown=1)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
