"""Anthropic Messages. https://docs.anthropic.com/en/api/messages"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

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
    **same_names("temperature", "top_p", "top_k", "max_tokens"),
    "stop_sequences": "stop",
    "thinking": "reasoning",
}


def read_request(path: str, body: JSONObject) -> ModelRequest:
    parameters = picked(body, PARAMETERS)
    effort = (body.get("output_config") or {}).get("effort")
    if effort is not None:
        parameters["effort"] = effort
    return ModelRequest(text_or_none(body.get("model")), parameters, bool(body.get("tools")))


def join_events(events: Sequence[JSONObject]) -> JSONObject:
    document: JSONObject = {}
    blocks: dict[int, JSONObject] = {}
    inputs: dict[int, str] = {}
    for event in events:
        match event.get("type"):
            case "message_start":
                document = {**event["message"]}
            case "content_block_start":
                blocks[event["index"]] = {**event["content_block"]}
            case "content_block_delta":
                _add(blocks[event["index"]], event["index"], event["delta"], inputs)
            case "message_delta":
                usage = {key: value for key, value in (event.get("usage") or {}).items() if value is not None}
                document |= event.get("delta") or {}
                document["usage"] = {**(document.get("usage") or {}), **usage}
            case "error":
                document["error"] = event["error"]
    for index, text in inputs.items():
        arguments = call_arguments(text)
        blocks[index]["input"] = text if arguments is None else arguments
    return {**document, "content": [blocks[index] for index in sorted(blocks)]}


def _add(block: JSONObject, index: int, delta: JSONObject, inputs: dict[int, str]) -> None:
    match delta.get("type"):
        case "text_delta":
            block["text"] = block.get("text", "") + delta["text"]
        case "thinking_delta":
            block["thinking"] = block.get("thinking", "") + delta["thinking"]
        case "signature_delta":
            block["signature"] = block.get("signature", "") + delta["signature"]
        case "input_json_delta":
            inputs[index] = inputs.get(index, "") + delta["partial_json"]
        case "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta["citation"]]


def read_reply(document: JSONObject) -> Reply:
    blocks: list[JSONObject] = document.get("content") or []

    def texts(kind: str) -> str:
        return joined(block.get(kind) for block in blocks if block["type"] == kind)

    return Reply(
        model=text_or_none(document.get("model")),
        text=texts("text"),
        reasoning=texts("thinking"),
        calls=tuple(
            RequestedCall(block.get("id"), block["name"], _object(block.get("input")))
            for block in blocks
            if block["type"] == "tool_use"
        ),
        usage=usage_or_none(usage, document.get("usage")),
        finish=document.get("stop_reason"),
        tokens=extension_tokens(document) or Tokens(),
    )


def usage(reported: JSONObject) -> Usage:
    # the API does not include cache reads and writes in `input_tokens`
    cached = reported.get("cache_read_input_tokens") or 0
    return Usage(
        input_tokens=reported["input_tokens"] + cached + (reported.get("cache_creation_input_tokens") or 0),
        output_tokens=reported["output_tokens"],
        cached_tokens=cached,
        model_calls=1,
    )


def _object(value: Any) -> JSONObject | None:
    return value if isinstance(value, dict) else None


ANTHROPIC_MESSAGES = Dialect(
    "anthropic-messages", re.compile(r"/messages$"), read_request, join_events, read_reply
)
