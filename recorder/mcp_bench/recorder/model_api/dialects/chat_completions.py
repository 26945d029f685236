"""OpenAI Chat Completions, with the extensions of other servers.

https://platform.openai.com/docs/api-reference/chat. The API has no field for reasoning; servers of
open-weights models send `reasoning_content` or `reasoning`, and Mistral's models a content in parts:
https://docs.mistral.ai/capabilities/reasoning. With `return_token_ids`, vLLM sends
`prompt_token_ids` and `token_ids`. With `return_tokens_as_token_ids`, it sends token ids in place of the
tokens' text: https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
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
    picked,
    same_names,
    text_or_none,
    usage_or_none,
)
from mcp_bench.recorder.trajectory import Usage

PARAMETERS = {
    **same_names("temperature", "top_p", "top_k", "min_p", "max_tokens", "seed", "stop"),
    **same_names("frequency_penalty", "presence_penalty", "repetition_penalty"),
    "max_completion_tokens": "max_tokens",
    "reasoning_effort": "reasoning",
    "reasoning": "reasoning",
}
REASONING = ("reasoning_content", "reasoning")
ONCE = ("role", "id", "type", "name", "index")
"""Text fields that are not concatenated: some servers repeat them in every event, or empty ones."""
MOST_CALLS = 10_000
"""In one answer. An index fills all places before it."""
TOKEN_ID = "token_id:"  # noqa: S105 - not a secret


def read_request(path: str, body: JSONObject) -> ModelRequest:
    return ModelRequest(text_or_none(body.get("model")), picked(body, PARAMETERS), bool(body.get("tools")))


def join_events(events: Sequence[JSONObject]) -> JSONObject:
    document: JSONObject = {}
    choices: dict[int, JSONObject] = {}
    for event in events:
        for part in event.get("choices") or ():
            index = part.get("index") or 0
            empty = {"index": index, "message": {"role": "assistant", "content": None}, "finish_reason": None}
            _add_choice(choices.setdefault(index, empty), part)
        document |= {key: value for key, value in event.items() if key != "choices" and value is not None}
    if document.get("object") == "chat.completion.chunk":
        document["object"] = "chat.completion"
    return {**document, "choices": [choices[index] for index in sorted(choices)]}


def read_reply(document: JSONObject) -> Reply:
    choice = (document.get("choices") or [{}])[0]
    message = choice.get("message") or {}
    text, thoughts = _texts(message.get("content"))
    return Reply(
        model=text_or_none(document.get("model")),
        text=text or text_or_none(message.get("refusal")) or "",
        reasoning=next((own for key in REASONING if (own := text_or_none(message.get(key)))), thoughts),
        calls=tuple(_call(call) for call in message.get("tool_calls") or ()),
        usage=usage_or_none(usage, document.get("usage")),
        finish=choice.get("finish_reason"),
        tokens=_tokens(document, choice),
    )


def usage(reported: JSONObject) -> Usage:
    details = reported.get("prompt_tokens_details") or {}
    return Usage(
        input_tokens=reported["prompt_tokens"],
        output_tokens=reported.get("completion_tokens", 0),
        cached_tokens=details.get("cached_tokens"),
        model_calls=1,
    )


def _texts(content: Any) -> tuple[str, str]:
    """Return the text and the reasoning of a content."""
    parts = _parts(content)
    return _joined(parts), _joined(inner for part in parts for inner in _parts(part.get("thinking")))


def _parts(content: Any) -> list[JSONObject]:
    """Return a content, which is a text or a list of parts, as parts; anything else is left out."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [part for part in content if isinstance(part, dict)] if isinstance(content, list) else []


def _joined(parts: Iterable[JSONObject]) -> str:
    texts = (text_or_none(part.get("text")) for part in parts if part.get("type") == "text")
    return "".join(text or "" for text in texts)


def _add_choice(choice: JSONObject, part: JSONObject) -> None:
    for key, value in part.items():
        if key == "delta":
            _add_delta(choice["message"], value or {})
        elif value is not None:
            _add(choice, key, value)


def _add_delta(message: JSONObject, delta: JSONObject) -> None:
    for key, value in delta.items():
        if key == "tool_calls":
            for part in value or ():
                _add_call(message.setdefault("tool_calls", []), part)
        elif value is not None:
            if key == "content" and isinstance(message.get(key), list):
                value = _parts(value)
            elif key == "content" and isinstance(value, list):
                message[key] = _parts(message.get(key))
            _add(message, key, value)


def _add_call(calls: list[JSONObject], part: JSONObject) -> None:
    # servers that send no index send each call whole
    index = part.get("index", len(calls))
    if index > MOST_CALLS:
        raise ValueError("the index of a call is out of range")
    while len(calls) <= index:
        calls.append({"type": "function", "function": {"name": "", "arguments": ""}})
    for key, value in part.items():
        if key == "function":
            for name, text in (value or {}).items():
                if text is not None:
                    _add(calls[index]["function"], name, text)
        elif value not in (None, "") and key != "index":
            calls[index][key] = value


def _add(target: JSONObject, key: str, value: Any) -> None:
    """Add a part. Texts and lists grow, also within objects (`logprobs`); other values are replaced."""
    known = target.get(key)
    if value == "" and key in ONCE:
        return
    if isinstance(value, dict) and isinstance(known, dict):
        for name, part in value.items():
            if part is not None:
                _add(known, name, part)
    elif isinstance(value, dict | list) and known is None:
        target[key] = value.copy()
    elif isinstance(value, str) and isinstance(known, str) and key not in (*ONCE, "finish_reason"):
        target[key] = known + value
    elif isinstance(value, list) and isinstance(known, list):
        known.extend(value)
    else:
        target[key] = value


def _call(call: JSONObject) -> RequestedCall:
    function = call.get("function") or {}
    return RequestedCall(
        text_or_none(call.get("id")),
        text_or_none(function.get("name")) or "",
        call_arguments(function.get("arguments") or ""),
    )


def _tokens(document: JSONObject, choice: JSONObject) -> Tokens:
    if (reported := extension_tokens(document)) is not None:
        return reported
    entries = (choice.get("logprobs") or {}).get("content") or None
    ids = choice.get("token_ids")
    if ids is None and entries and all(str(entry["token"]).startswith(TOKEN_ID) for entry in entries):
        ids = [int(entry["token"].removeprefix(TOKEN_ID)) for entry in entries]
    return Tokens(
        prompt_ids=document.get("prompt_token_ids") or choice.get("prompt_token_ids"),
        ids=ids,
        logprobs=[entry["logprob"] for entry in entries] if entries else None,
        version=text_or_none(document.get("system_fingerprint")),
    )


CHAT_COMPLETIONS = Dialect(
    "chat-completions", re.compile(r"/chat/completions$"), read_request, join_events, read_reply
)
