"""Anthropic Messages. Reasoning goes in a signed `thinking` block, which must come back unchanged.

https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

from .chat_completions import halves
from .dialect import Dialect, Event, JSONObject
from .script import Conversation, OfferedTool, Turn


def parse(body: JSONObject) -> Conversation:
    """Parse a request.

    Raises:
        ValueError: a thinking block came back changed, or a message is empty; the real API refuses both.
    """
    if not all(message["content"] for message in body["messages"]):
        raise ValueError("messages must have non-empty content")
    blocks = [block for message in body["messages"] for block in _blocks(message["content"])]
    for block in blocks:
        if block["type"] == "thinking" and block["signature"] != _signature(block["thinking"]):
            raise ValueError("a thinking block came back without its own signature")
    texts = [
        block["text"] for block in (*_blocks(body.get("system") or ""), *blocks) if block["type"] == "text"
    ]
    return Conversation(
        texts=tuple(texts),
        results=sum(block["type"] == "tool_result" for block in blocks),
        tools=tuple(OfferedTool(tool["name"]) for tool in body.get("tools") or ()),
        model=body["model"],
        stream=bool(body.get("stream")),
        one_action=body.get("tool_choice") == {"type": "any", "disable_parallel_tool_use": True},
    )


def answer(turn: Turn) -> JSONObject:
    return {**_head(turn), "content": _content(turn), "stop_reason": _stop(turn), "usage": _usage(turn)}


def events(turn: Turn) -> Iterator[Event]:
    def event(kind: str, **data: Any) -> Event:
        return Event({"type": kind, **data}, kind)

    usage = _usage(turn)
    started = {**_head(turn), "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    yield event("message_start", message=started)
    yield event("ping")
    for index, (block, call) in enumerate(zip(_content(turn), _calls_by_block(turn), strict=True)):
        arguments = call.arguments_text if call else ""
        empty, deltas = _streamed(block, arguments)
        yield event("content_block_start", index=index, content_block=empty)
        for delta in deltas:
            yield event("content_block_delta", index=index, delta=delta)
        yield event("content_block_stop", index=index)
    delta = {"stop_reason": _stop(turn), "stop_sequence": None}
    yield event("message_delta", delta=delta, usage={"output_tokens": usage["output_tokens"]})
    yield event("message_stop")


def error(status: int, message: str, code: str | None) -> JSONObject:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 429: "rate_limit_error"}
    return {"type": "error", "error": {"type": code or kinds.get(status, "api_error"), "message": message}}


def count_tokens(body: JSONObject) -> JSONObject:
    return {"input_tokens": sum(len(text) for text in parse({"model": "", **body}).texts) // 4}


def _blocks(content: Any) -> list[JSONObject]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _content(turn: Turn) -> list[JSONObject]:
    thinking = {"type": "thinking", "thinking": turn.reasoning, "signature": _signature(turn.reasoning)}
    text = {"type": "text", "text": turn.text}
    calls = [
        {
            "type": "tool_use",
            "id": f"toolu_{call.id}",
            "name": call.name,
            "input": call.arguments if isinstance(call.arguments, dict) else {"malformed": call.arguments},
        }
        for call in turn.calls
    ]
    return [*([thinking] if turn.reasoning else []), *([text] if turn.text else []), *calls]


def _calls_by_block(turn: Turn) -> list[Any]:
    return [None] * (bool(turn.reasoning) + bool(turn.text)) + list(turn.calls)


def _streamed(block: JSONObject, arguments: str) -> tuple[JSONObject, list[JSONObject]]:
    """Return a block at its start, and the deltas that fill it."""
    if block["type"] == "thinking":
        deltas = [{"type": "thinking_delta", "thinking": part} for part in halves(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
        return {"type": "thinking", "thinking": "", "signature": ""}, deltas
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": part} for part in halves(block["text"])]
    deltas = [{"type": "input_json_delta", "partial_json": part} for part in halves(arguments)]
    return {**block, "input": {}}, deltas


def _signature(thinking: str) -> str:
    return hashlib.sha256(thinking.encode()).hexdigest()


def _head(turn: Turn) -> JSONObject:
    head = {"id": f"msg_{turn.id}", "type": "message", "role": "assistant", "model": turn.model}
    return {**head, "stop_sequence": None}


def _stop(turn: Turn) -> str:
    return turn.stop or ("tool_use" if turn.calls else "end_turn")


def _usage(turn: Turn) -> JSONObject:
    """Return the usage. This API counts cached tokens separately from `input_tokens`."""
    usage = turn.usage
    return {
        "input_tokens": usage.input - usage.cached,
        "output_tokens": usage.output,
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": 0,
    }


ANTHROPIC_MESSAGES = Dialect(
    "anthropic-messages",
    "/v1/messages",
    parse,
    answer,
    events,
    error,
    side_paths=(("/v1/messages/count_tokens", count_tokens),),
)
