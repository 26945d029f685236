"""The requests of Anthropic's Messages API, as requests of the chat API.

https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcp_bench.trainer.engine.api.chat_request import (
    EXTENSIONS,
    ChatRequest,
    checked,
    one_system_message,
    read_json,
    without_nothing,
)
from mcp_bench.trainer.engine.api.errors import ApiError

SAME = ("model", "temperature", "top_p", "max_tokens", "stream", *EXTENSIONS)
CHOICES = {"auto": "auto", "any": "required", "none": "none"}
BILLING = "x-anthropic-billing-header:"
"""Begins a block of the system prompt that Claude Code fills anew for each request. It is for the API, not
for the model."""


def read_messages(body: bytes) -> ChatRequest:
    """Return a checked request.

    Raises:
        ApiError: it is not JSON, or a field is wrong (status 400).
    """
    asked = read_json(body)
    try:
        system = [block for block in _blocks(asked.get("system") or "") if not _is_billing(block)]
        messages = [{"role": "system", "content": block["text"]} for block in system if block["text"]]
        for message in asked.get("messages") or ():
            messages += _messages(message["role"], _blocks(message["content"]))
        tools = [_tool(tool) for tool in asked.get("tools") or () if "input_schema" in tool]
        wanted = (asked.get("output_config") or {}).get("format") or asked.get("output_format")
    except (KeyError, TypeError, AttributeError) as error:
        wrong = "a message, a tool or `output_config` is incomplete"
        raise ApiError(f"{wrong}: {error!r}", param="messages") from error
    made = {name: asked.get(name) for name in SAME} | {"response_format": wanted}
    made |= {"stop": asked.get("stop_sequences"), "tools": tools}
    choice = asked.get("tool_choice") or {}
    if not isinstance(choice, dict):
        raise ApiError('tool_choice: an object is needed, such as {"type": "any"}', param="tool_choice")
    if tools and choice:
        kind = str(choice.get("type"))
        if kind not in CHOICES and kind != "tool":
            raise ApiError(
                f"tool_choice: type {kind!r} is none of {', '.join(CHOICES)}, tool", param="tool_choice"
            )
        named = {"type": "function", "function": {"name": choice.get("name")}}
        made["tool_choice"] = named if kind == "tool" else CHOICES[kind]
        made["parallel_tool_calls"] = not choice.get("disable_parallel_tool_use")
    made["messages"] = one_system_message(messages)
    return checked(ChatRequest, without_nothing(made))


def _blocks(content: Any) -> list[dict[str, Any]]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _is_billing(block: Mapping[str, Any]) -> bool:
    return str(block["text"]).startswith(BILLING)


def _tool(tool: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": tool["name"], "parameters": tool["input_schema"]}
    if tool.get("description"):
        function["description"] = tool["description"]
    if tool.get("strict") is not None:
        function["strict"] = tool["strict"]
    return {"type": "function", "function": function}


def _messages(role: str, blocks: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the messages of one: each result of a tool is a message, and so is the text beside them."""
    made: dict[str, Any] = {"role": role, "content": []}
    for block in blocks:
        match block["type"]:
            case "text":
                made["content"].append({"type": "text", "text": block["text"]})
            case "thinking":
                made["reasoning_content"] = made.get("reasoning_content", "") + block["thinking"]
            case "tool_use":
                function = {"name": block["name"], "arguments": block["input"]}
                call = {"id": block["id"], "type": "function", "function": function}
                made.setdefault("tool_calls", []).append(call)
            case "tool_result":
                content = block.get("content") or ""
                yield {"role": "tool", "tool_call_id": block["tool_use_id"], "content": content}
            case "redacted_thinking":
                pass
            case other:
                raise ApiError(f"messages: this engine reads text only, not {other}", param="messages")
    if made["content"] or role == "assistant":
        yield made
