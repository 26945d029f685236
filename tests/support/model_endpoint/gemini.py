"""Gemini's generateContent. Reasoning goes in parts marked `thought`; the first call is signed.

https://ai.google.dev/api/generate-content

Model and method are in the path. Calls have no ids: position and tool name identify a result.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator

from .chat_completions import halves
from .dialect import Dialect, Event, JSONObject
from .script import Call, Conversation, OfferedTool, Turn


def parse(body: JSONObject) -> Conversation:
    """Parse a request.

    Raises:
        ValueError: a call came back changed or without its signature; the real API refuses it, too.
    """
    contents = [*([body["systemInstruction"]] if body.get("systemInstruction") else []), *body["contents"]]
    parts = [part for content in contents for part in content["parts"]]
    for part in parts:
        signature = part.get("thoughtSignature")
        if "functionCall" in part and signature and signature != _signature(part["functionCall"]):
            raise ValueError("a call came back without its own thought signature")
    declared = [tool for tools in body.get("tools") or () for tool in tools.get("functionDeclarations", ())]
    return Conversation(
        texts=tuple(part["text"] for part in parts if "text" in part),
        results=sum("functionResponse" in part for part in parts),
        tools=tuple(OfferedTool(tool["name"]) for tool in declared),
        model=body["model"],
        stream=body["method"] == "streamGenerate",
    )


def answer(turn: Turn) -> JSONObject:
    return _piece(turn, [part for parts in _parts(turn) for part in parts], finish=turn.stop or "STOP")


def events(turn: Turn) -> Iterator[Event]:
    """Return the stream. As in the real API, every piece repeats the usage so far; the last one is complete."""
    for parts in _parts(turn):
        yield Event(_piece(turn, parts))
    yield Event(_piece(turn, [{"text": ""}], finish=turn.stop or "STOP"))


def error(status: int, message: str, code: str | None) -> JSONObject:
    kinds = {400: "INVALID_ARGUMENT", 401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 500: "INTERNAL"}
    return {"error": {"code": status, "message": message, "status": code or kinds.get(status, "UNAVAILABLE")}}


def count_tokens(body: JSONObject) -> JSONObject:
    return {"totalTokens": sum(len(text) for text in parse(body).texts) // 4}


def _parts(turn: Turn) -> Iterator[list[JSONObject]]:
    """Yield the parts of each piece of a stream."""
    if turn.reasoning:  # in one piece: a thought in two pieces would be two thoughts
        yield [{"text": turn.reasoning, "thought": True}]
    yield from ([{"text": part}] for part in halves(turn.text))
    calls = [{"functionCall": {"name": call.name, "args": _arguments(call)}} for call in turn.calls]
    if calls:
        calls[0]["thoughtSignature"] = _signature(calls[0]["functionCall"])
        yield calls


def _arguments(call: Call) -> JSONObject:
    return call.arguments if isinstance(call.arguments, dict) else {"malformed": call.arguments}


def _signature(call: JSONObject) -> str:
    """Return base64 that must come back with the call. JavaScript writes 10.0 as 10."""
    args = json.loads(json.dumps(call["args"]), parse_float=_number)
    plain = json.dumps([call["name"], args], sort_keys=True)
    return b64encode(hashlib.sha256(plain.encode()).digest()).decode()


def _number(text: str) -> float:
    return int(float(text)) if float(text).is_integer() else float(text)


def _piece(turn: Turn, parts: list[JSONObject], finish: str | None = None) -> JSONObject:
    candidate: JSONObject = {"content": {"parts": parts, "role": "model"}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    usage = _usage(turn) if finish else {**_usage(turn), "candidatesTokenCount": 1}
    head = {"responseId": f"resp_{turn.id}", "modelVersion": turn.model}
    return {"candidates": [candidate], "usageMetadata": usage, **head}


def _usage(turn: Turn) -> JSONObject:
    """Return the usage. This API counts thoughts separately from the other output tokens."""
    usage = turn.usage
    return {
        "promptTokenCount": usage.input,
        "candidatesTokenCount": usage.output - usage.reasoning,
        "thoughtsTokenCount": usage.reasoning,
        "cachedContentTokenCount": usage.cached,
        "totalTokenCount": usage.input + usage.output,
    }


GEMINI = Dialect(
    "gemini",
    "/v1beta/models/{model}:{method}Content",
    parse,
    answer,
    events,
    error,
    side_paths=(("/v1beta/models/{model}:{method}Tokens", count_tokens),),
)
