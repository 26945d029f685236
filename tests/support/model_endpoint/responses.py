"""OpenAI Responses. Reasoning is a separate item, with a summary, and must come back unchanged.

https://platform.openai.com/docs/api-reference/responses

In the form that Codex uses: streamed and not stored, with the tools of an MCP server in a `namespace`, and, for
some models, with the tools in an item of the input instead of in `tools`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from .chat_completions import CREATED, halves
from .dialect import Dialect, Event, JSONObject
from .script import Conversation, OfferedTool, Turn

CUSTOM = "custom"
"""The namespace of tools that take plain text."""
RESULTS = ("function_call_output", "custom_tool_call_output")


def parse(body: JSONObject) -> Conversation:
    """Parse a request.

    Raises:
        ValueError: a reasoning item came back changed.
    """
    items = [{"role": "user", "content": body["input"]}] if isinstance(body["input"], str) else body["input"]
    for item in items:
        if item.get("type") == "reasoning" and item["encrypted_content"] != _seal(_summary(item)):
            raise ValueError("a reasoning item came back without its own encrypted content")
    added = [tool for item in items if item.get("type") == "additional_tools" for tool in item["tools"]]
    messages = [_text(item["content"]) for item in items if item.get("type", "message") == "message"]
    return Conversation(
        texts=(body.get("instructions") or "", *messages),
        results=sum(item.get("type") in RESULTS for item in items),
        tools=tuple(_offered([*(body.get("tools") or ()), *added])),
        model=body["model"],
        stream=bool(body.get("stream")),
    )


def answer(turn: Turn) -> JSONObject:
    whole = {**_head(turn, _end(turn)), "output": _items(turn), "usage": _usage(turn)}
    return {**whole, "incomplete_details": {"reason": turn.stop}} if turn.stop else whole


def events(turn: Turn) -> Iterator[Event]:
    numbers = count()

    def event(kind: str, **data: Any) -> Event:
        return Event({"type": kind, "sequence_number": next(numbers), **data}, kind)

    begun = {**_head(turn, "in_progress"), "output": [], "usage": None}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for index, item in enumerate(_items(turn)):
        empty, kind, place, text = _streamed(item)
        where = {"item_id": item["id"], "output_index": index, **place}
        yield event("response.output_item.added", output_index=index, item=empty)
        for part in halves(text):
            yield event(f"response.{kind}.delta", **where, delta=part)
        yield event(f"response.{kind}.done", **where, **{kind.rpartition("_")[2]: text})
        yield event("response.output_item.done", output_index=index, item=item)
    yield event(f"response.{_end(turn)}", response=answer(turn))


def error(status: int, message: str, code: str | None) -> JSONObject:
    kind = {401: "invalid_request_error", 429: "rate_limit_exceeded"}.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def _offered(tools: Iterable[JSONObject]) -> Iterator[OfferedTool]:
    for tool in tools:
        if tool["type"] == "namespace":
            inner = [inner for inner in tool["tools"] if inner["type"] == "function"]
            yield from (OfferedTool(function["name"], tool["name"]) for function in inner)
        elif tool["type"] in ("function", CUSTOM):
            yield OfferedTool(tool["name"], CUSTOM if tool["type"] == CUSTOM else None)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else " ".join(part.get("text", "") for part in content)


def _items(turn: Turn) -> list[JSONObject]:
    items: list[JSONObject] = []
    if turn.reasoning:
        reasoning = {"id": f"rs_{turn.id}", "type": "reasoning"}
        summary = [{"type": "summary_text", "text": turn.reasoning}]
        items.append({**reasoning, "summary": summary, "encrypted_content": _seal(turn.reasoning)})
    if turn.text:
        message = {"id": f"msg_{turn.id}", "type": "message", "status": "completed", "role": "assistant"}
        text = {"type": "output_text", "text": turn.text, "annotations": []}
        items.append({**message, "content": [text]})
    for call in turn.calls:
        common = {"call_id": call.id, "name": call.name, "status": "completed"}
        if call.namespace == CUSTOM:
            custom = {"id": f"ctc_{call.id}", "type": "custom_tool_call", "input": call.arguments_text}
            items.append({**custom, **common})
        else:
            function = {"id": f"fc_{call.id}", "type": "function_call", "arguments": call.arguments_text}
            namespace = {"namespace": call.namespace} if call.namespace else {}
            items.append({**function, **namespace, **common})
    return items


def _streamed(item: JSONObject) -> tuple[JSONObject, str, JSONObject, str]:
    """Return an item at its start, the kind of its events, their place in it, and its text."""
    if item["type"] == "reasoning":
        empty = {**item, "summary": []}
        return empty, "reasoning_summary_text", {"summary_index": 0}, _summary(item)
    if item["type"] == "message":
        empty = {**item, "content": [], "status": "in_progress"}
        return empty, "output_text", {"content_index": 0}, _text(item["content"])
    key = "input" if item["type"] == "custom_tool_call" else "arguments"
    empty = {**item, key: "", "status": "in_progress"}
    return empty, f"{item['type']}_{key}", {}, item[key]


def _summary(item: JSONObject) -> str:
    return "".join(part["text"] for part in item["summary"])


def _seal(reasoning: str) -> str:
    return hashlib.sha256(reasoning.encode()).hexdigest()


def _end(turn: Turn) -> str:
    return "incomplete" if turn.stop else "completed"


def _head(turn: Turn, status: str) -> JSONObject:
    head = {"id": f"resp_{turn.id}", "object": "response", "created_at": CREATED, "model": turn.model}
    return {**head, "status": status, "error": None, "incomplete_details": None}


def _usage(turn: Turn) -> JSONObject:
    usage = turn.usage
    return {
        "input_tokens": usage.input,
        "input_tokens_details": {"cached_tokens": usage.cached},
        "output_tokens": usage.output,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning},
        "total_tokens": usage.input + usage.output,
    }


RESPONSES = Dialect("responses", "/v1/responses", parse, answer, events, error)
