"""The part of the conformance server that asks for input in results (2026-07-28, SEP-2322).

A tool that needs input from the client returns requests. The client calls again with the answers, and with
the state that it received.
"""

from __future__ import annotations

import json
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import UserMessage
from mcp_types import (
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    TextContent,
)


def form(message: str, field: str, kind: str = "string") -> ElicitRequest:
    schema = {"type": "object", "properties": {field: {"type": kind}}, "required": [field]}
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampling(prompt: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=100))


def needed(state: str | None = None, **requests: InputRequest) -> InputRequiredResult:
    return InputRequiredResult(input_requests=requests, request_state=state)


def filled(answer: Any, field: str) -> Any:
    """Return a field of a form that the user sent, or None."""
    return answer.content.get(field) if isinstance(answer, ElicitResult) and answer.content else None


async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    name = filled((ctx.input_responses or {}).get("user_name"), "name")
    return needed(user_name=form("What is your name?", "name")) if name is None else f"Hello, {name}!"


async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    answer = (ctx.input_responses or {}).get("capital_question")
    if not isinstance(answer, CreateMessageResult):
        return needed(capital_question=sampling("What is the capital of France?"))
    return f"Model said: {answer.content.text if answer.content.type == 'text' else ''}"


async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    answer = (ctx.input_responses or {}).get("client_roots")
    if not isinstance(answer, ListRootsResult):
        return needed(client_roots=ListRootsRequest())
    return f"Client exposed {len(answer.roots)} root(s)."


async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    if "confirm" in (ctx.input_responses or {}) and ctx.request_state == "nonce":
        return "state-ok: confirmation received"
    return needed("nonce", confirm=form("Please confirm", "ok", "boolean"))


async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
    requests: dict[str, InputRequest] = {
        "user_name": form("What is your name?", "name"),
        "greeting": sampling("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    if requests.keys() <= (ctx.input_responses or {}).keys():
        return "All inputs received."
    return needed("several", **requests)


async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    state = json.loads(ctx.request_state) if ctx.request_state else {}
    answers = ctx.input_responses or {}
    if "name" in state and "step2" in answers:
        return f"{state['name']} likes {filled(answers['step2'], 'color')}."
    if state.get("round") == 1 and "step1" in answers:
        state = {"round": 2, "name": filled(answers["step1"], "name")}
        return needed(json.dumps(state), step2=form("Step 2: What is your favorite color?", "color"))
    return needed(json.dumps({"round": 1}), step1=form("Step 1: What is your name?", "name"))


async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
    if ctx.request_state is None:  # the SDK signs the state and rejects a changed one
        return needed("round-1", confirm=form("Please confirm", "ok", "boolean"))
    return f"state-ok: {ctx.request_state}"


async def test_input_required_result_capabilities(ctx: Context) -> InputRequiredResult:
    can = ctx.client_capabilities
    requests: dict[str, InputRequest] = {}
    if can is None or can.sampling is not None:
        requests["sample"] = sampling("Say hello")
    if can is None or can.elicitation is not None:
        requests["ask"] = form("What is your name?", "name")
    return needed("by capability", **requests)


async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
    """A prompt that asks for input first."""
    context = filled((ctx.input_responses or {}).get("user_context"), "context")
    if context is None:
        return needed(user_context=form("What context should the prompt use?", "context"))
    return [UserMessage(role="user", content=TextContent(type="text", text=f"Use this context: {context}"))]


def add_input_tools(server: MCPServer) -> None:
    for tool in (
        test_input_required_result_elicitation,
        test_input_required_result_sampling,
        test_input_required_result_list_roots,
        test_input_required_result_request_state,
        test_input_required_result_multiple_inputs,
        test_input_required_result_multi_round,
        test_input_required_result_tampered_state,
        test_input_required_result_capabilities,
    ):
        server.add_tool(tool, description="Asks the client for input in its result.")
    server.prompt()(test_input_required_result_prompt)
