"""The requests of OpenAI's Responses API, as requests of the chat API.

https://platform.openai.com/docs/api-reference/responses, in the form that Codex sends as well: tools in a
namespace, tools in an item of the input, and tools that take plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from pydantic import Field

from mcp_bench.trainer.engine.api.chat_request import (
    EXTENSIONS,
    ChatRequest,
    checked,
    one_system_message,
    read_json,
    without_nothing,
)
from mcp_bench.trainer.engine.api.errors import ApiError

SAME = ("model", "temperature", "top_p", "stream", "parallel_tool_calls", *EXTENSIONS)
OUTPUTS = ("function_call_output", "custom_tool_call_output")
INPUT = "input"
"""The argument that a tool for plain text has for the model."""


class Origin(NamedTuple):
    """What a tool is called in the request."""

    name: str
    namespace: str | None = None
    custom: bool = False
    """Whether it takes plain text."""


class ResponsesRequest(ChatRequest):
    """A request with the origins of its tools, by the names that the model sees."""

    origins: dict[str, Origin] = Field(default_factory=dict)


def read_responses(body: bytes) -> ResponsesRequest:
    """Return a checked request.

    Raises:
        ApiError: it is not JSON, a field is wrong, or it names what the server should have stored, or asks
            for log-probabilities (status 400).
    """
    asked = read_json(body)
    for stored in ("previous_response_id", "conversation", "prompt"):
        if asked.get(stored):
            message = f"{stored}: this server stores nothing: send all items as input"
            raise ApiError(message, param=stored)
    given = asked.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ApiError("input: a text or a list of items is needed", param="input")
    if asked.get("top_logprobs"):
        message = "top_logprobs: this server gives log-probabilities in /v1/chat/completions only"
        raise ApiError(message, param="top_logprobs")
    try:
        made = {name: asked.get(name) for name in SAME}
        made["response_format"] = (asked.get("text") or {}).get("format")
        origins = _origins(asked, items)
        shown = {origin: name for name, (origin, _) in origins.items()}
        messages = list(_messages(asked.get("instructions"), items, shown))
    except (KeyError, TypeError, AttributeError) as error:
        raise ApiError(f"an item, a tool or `text` is incomplete: {error!r}", param="input") from error
    made["max_tokens"] = asked.get("max_output_tokens")
    made["tools"] = [{"type": "function", "function": tool} for _, tool in origins.values()]
    choice = asked.get("tool_choice")
    if isinstance(choice, dict) and "name" in choice:
        choice = {"type": "function", "function": {"name": choice["name"]}}
    if made["tools"]:
        made["tool_choice"] = choice
    made["messages"] = one_system_message(messages)
    made["origins"] = {name: origin for name, (origin, _) in origins.items()}
    return checked(ResponsesRequest, without_nothing(made))


def _origins(
    asked: Mapping[str, Any], items: Iterable[Mapping[str, Any]]
) -> dict[str, tuple[Origin, dict[str, Any]]]:
    """Return the tools by the names that the model sees: their own, with the namespace only if it must be."""
    added = [tool for item in items if item.get("type") == "additional_tools" for tool in item["tools"]]
    found: dict[str, tuple[Origin, dict[str, Any]]] = {}
    for origin, tool in _tools([*(asked.get("tools") or ()), *added], None):
        name = origin.name
        if name in found and found[name][0] != origin:
            name = f"{origin.namespace or ''}__{name}"
        found[name] = (origin, {**tool, "name": name})
    return found


def _tools(
    tools: Iterable[Mapping[str, Any]], namespace: str | None
) -> Iterator[tuple[Origin, dict[str, Any]]]:
    for tool in tools:
        match tool["type"]:
            case "namespace":
                yield from _tools(tool["tools"], tool["name"])
            case "function":
                names = ("description", "parameters", "strict")
                known = {name: tool[name] for name in names if tool.get(name) is not None}
                yield Origin(tool["name"], namespace), known
            case "custom":
                text = {"type": "object", "properties": {INPUT: {"type": "string"}}, "required": [INPUT]}
                known = {"description": tool.get("description") or "", "parameters": text}
                yield Origin(tool["name"], namespace, custom=True), known
            # all others are run by the API's own server: a search of the web, a sandbox


def _messages(
    instructions: Any, items: Iterable[Mapping[str, Any]], shown: Mapping[Origin, str]
) -> Iterator[dict[str, Any]]:
    """Yield messages. The items of one answer (thought, text, calls) are one message."""
    if instructions:
        yield {"role": "system", "content": instructions}
    answer: dict[str, Any] | None = None
    for item in items:
        kind = item.get("type", "message")
        if kind in ("reasoning", "function_call", "custom_tool_call") or item.get("role") == "assistant":
            answer = answer or {"role": "assistant", "content": ""}
            _add(answer, item, kind, shown)
            continue
        if answer is not None:
            yield answer
            answer = None
        if kind in OUTPUTS:
            yield {"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]}
        elif kind == "message":
            yield {"role": item["role"], "content": item["content"]}
    if answer is not None:
        yield answer


def _add(answer: dict[str, Any], item: Mapping[str, Any], kind: str, shown: Mapping[Origin, str]) -> None:
    if kind == "reasoning":
        parts = item.get("content") or item.get("summary") or ()
        before = answer.get("reasoning_content", "")
        answer["reasoning_content"] = before + "".join(part["text"] for part in parts)
    elif kind == "message":
        said = item["content"]
        answer["content"] += said if isinstance(said, str) else "".join(part["text"] for part in said)
    else:
        custom = kind == "custom_tool_call"
        origin = Origin(item["name"], item.get("namespace"), custom)
        arguments = {INPUT: item["input"]} if custom else item["arguments"]
        function = {"name": shown.get(origin, origin.name), "arguments": arguments}
        call = {"id": item["call_id"], "type": "function", "function": function}
        answer.setdefault("tool_calls", []).append(call)
