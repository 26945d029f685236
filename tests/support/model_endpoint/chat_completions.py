"""OpenAI Chat Completions. Reasoning goes in `reasoning_content`, the field of open-weights servers.

https://platform.openai.com/docs/api-reference/chat
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from .dialect import Dialect, Event, JSONObject
from .script import Conversation, OfferedTool, Turn

CREATED = 1_700_000_000


def parse(body: JSONObject) -> Conversation:
    messages = body["messages"]
    return Conversation(
        texts=tuple(_text(message.get("content")) for message in messages if message["role"] != "tool"),
        results=sum(message["role"] == "tool" for message in messages),
        tools=tuple(OfferedTool(tool["function"]["name"]) for tool in body.get("tools") or ()),
        model=body["model"],
        stream=bool(body.get("stream")),
        one_action=body.get("tool_choice") == "required" and body.get("parallel_tool_calls") is False,
    )


def answer(turn: Turn) -> JSONObject:
    message: JSONObject = {"role": "assistant", "content": turn.text or None}
    if turn.reasoning:
        message["reasoning_content"] = turn.reasoning
    if turn.calls:
        message["tool_calls"] = _tool_calls(turn)
    choice = {"index": 0, "message": message, "finish_reason": _finish(turn), "logprobs": None}
    return {**_head(turn, "chat.completion"), "choices": [choice], "usage": _usage(turn)}


def events(turn: Turn) -> Iterator[Event]:
    def chunk(delta: JSONObject, finish: str | None = None) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return Event({**_head(turn, "chat.completion.chunk"), "choices": [choice]})

    yield chunk({"role": "assistant", "content": ""})
    for key, text in (("reasoning_content", turn.reasoning), ("content", turn.text)):
        for part in halves(text):
            yield chunk({key: part})
    for index, call in enumerate(_tool_calls(turn)):
        function = call["function"]
        start = {**call, "index": index, "function": {"name": function["name"], "arguments": ""}}
        yield chunk({"tool_calls": [start]})
        for part in halves(function["arguments"]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": part}}]})
    yield chunk({}, _finish(turn))
    yield Event({**_head(turn, "chat.completion.chunk"), "choices": [], "usage": _usage(turn)})
    yield Event("[DONE]")


def error(status: int, message: str, code: str | None) -> JSONObject:
    kind = {401: "invalid_request_error", 429: "rate_limit_exceeded"}.get(status, "server_error")
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def halves(text: str) -> list[str]:
    """Cut a text in two, so that a reader has to join the parts of a stream."""
    middle = len(text) // 2
    return [part for part in (text[:middle], text[middle:]) if part]


def _text(content: Any) -> str:
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)
    return content or ""


def _tool_calls(turn: Turn) -> list[JSONObject]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments_text}}
        for call in turn.calls
    ]


def _head(turn: Turn, kind: str) -> JSONObject:
    return {"id": f"chatcmpl-{turn.id}", "object": kind, "created": CREATED, "model": turn.model}


def _finish(turn: Turn) -> str:
    return turn.stop or ("tool_calls" if turn.calls else "stop")


def _usage(turn: Turn) -> JSONObject:
    usage = turn.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning},
    }


CHAT_COMPLETIONS = Dialect("chat-completions", "/v1/chat/completions", parse, answer, events, error)
