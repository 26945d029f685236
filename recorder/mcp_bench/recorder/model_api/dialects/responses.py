"""OpenAI Responses. https://platform.openai.com/docs/api-reference/responses"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mcp_bench.recorder.model_api.dialects.dialect import (
    Dialect,
    JSONObject,
    ModelRequest,
    Reply,
    RequestedCall,
    Tokens,
    call_arguments,
    extension_tokens,
    joined,
    picked,
    same_names,
    text_or_none,
    usage_or_none,
)
from mcp_bench.recorder.trajectory import Usage

PARAMETERS = {
    **same_names("temperature", "top_p", "top_k", "seed", "stop", "reasoning"),
    **same_names("frequency_penalty", "presence_penalty", "repetition_penalty"),
    "max_output_tokens": "max_tokens",
}
LAST = ("response.completed", "response.incomplete", "response.failed")


def read_request(path: str, body: JSONObject) -> ModelRequest:
    items = body.get("input") if isinstance(body.get("input"), list) else []
    # with some models, Codex puts the tools into the input
    added = any(item.get("type") == "additional_tools" for item in items or ())
    return ModelRequest(
        text_or_none(body.get("model")), picked(body, PARAMETERS), bool(body.get("tools")) or added
    )


def join_events(events: Sequence[JSONObject]) -> JSONObject:
    """Return the response of the last event, with items from earlier events if it has none."""
    document: JSONObject = {}
    items: dict[int, JSONObject] = {}
    for event in events:
        kind = event.get("type", "")
        if kind in ("response.created", "response.in_progress", *LAST):
            document = {**event["response"]}
        elif kind == "response.output_item.done":
            items[event.get("output_index", len(items))] = event["item"]
        elif kind == "error":
            document["error"] = event.get("error") or event
    if not document.get("output"):
        document["output"] = [items[index] for index in sorted(items)]
    return document


def read_reply(document: JSONObject) -> Reply:
    items: list[JSONObject] = document.get("output") or []
    parts = [part for item in items if item["type"] == "message" for part in item.get("content") or ()]
    status = document.get("status")
    logprobs = [entry["logprob"] for part in parts for entry in part.get("logprobs") or ()]
    return Reply(
        model=text_or_none(document.get("model")),
        text=joined(part.get("text") or part.get("refusal") for part in parts),
        reasoning=joined(_thoughts(items)),
        calls=tuple(_calls(items)),
        usage=usage_or_none(usage, document.get("usage")),
        finish=status if status in ("completed", "incomplete") else None,
        tokens=extension_tokens(document) or Tokens(logprobs=logprobs or None),
    )


def usage(reported: JSONObject) -> Usage:
    return Usage(
        input_tokens=reported["input_tokens"],
        output_tokens=reported["output_tokens"],
        cached_tokens=(reported.get("input_tokens_details") or {}).get("cached_tokens"),
        model_calls=1,
    )


def _thoughts(items: Sequence[JSONObject]) -> Iterator[str]:
    """Yield the full reasoning where the server sends it, else its summary."""
    for item in items:
        if item["type"] == "reasoning":
            yield joined(part.get("text") for part in item.get("content") or item.get("summary") or ())


def _calls(items: Sequence[JSONObject]) -> Iterator[RequestedCall]:
    for item in items:
        if item["type"] == "function_call":
            yield RequestedCall(
                item.get("call_id"), item["name"], call_arguments(item.get("arguments") or "")
            )
        elif item["type"] == "custom_tool_call":
            yield RequestedCall(item.get("call_id"), item["name"], None)


RESPONSES = Dialect("responses", re.compile(r"/responses$"), read_request, join_events, read_reply)
