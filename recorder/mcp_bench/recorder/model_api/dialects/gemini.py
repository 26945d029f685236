"""Gemini's generateContent. https://ai.google.dev/api/generate-content

The path names the model. A stream without `alt=sse` is a JSON array of chunks.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bench.recorder.model_api.dialects.dialect import (
    Dialect,
    JSONObject,
    ModelRequest,
    Reply,
    RequestedCall,
    Tokens,
    joined,
    picked,
    same_names,
    text_or_none,
    usage_or_none,
)
from mcp_bench.recorder.trajectory import Usage

PATH = re.compile(r"/models/(?P<model>[^/]+):(?:generateContent|streamGenerateContent)$")
PARAMETERS = {
    **same_names("temperature", "seed"),
    "topP": "top_p",
    "topK": "top_k",
    "maxOutputTokens": "max_tokens",
    "stopSequences": "stop",
    "frequencyPenalty": "frequency_penalty",
    "presencePenalty": "presence_penalty",
    "thinkingConfig": "reasoning",
}


def read_request(path: str, body: JSONObject) -> ModelRequest:
    named = PATH.search(path)
    parameters = picked(body.get("generationConfig") or {}, PARAMETERS)
    return ModelRequest(named["model"] if named else None, parameters, bool(body.get("tools")))


def join_events(events: Sequence[JSONObject]) -> JSONObject:
    document: JSONObject = {}
    candidates: dict[int, JSONObject] = {}
    for event in events:
        for part in event.get("candidates") or ():
            _add(candidates.setdefault(part.get("index", 0), {}), part)
        document |= {key: value for key, value in event.items() if key != "candidates"}
    return {**document, "candidates": [candidates[index] for index in sorted(candidates)]}


def _add(candidate: JSONObject, part: JSONObject) -> None:
    content = part.get("content") or {}
    known = candidate.setdefault("content", {"parts": [], "role": "model"})
    for piece in content.get("parts") or ():
        last = known["parts"][-1] if known["parts"] else {}
        if "text" in piece and "text" in last and _mark(piece) == _mark(last):
            last["text"] += piece["text"]
        else:
            known["parts"].append({**piece})
    known |= {key: value for key, value in content.items() if key != "parts"}
    for key, value in part.items():
        if key == "logprobsResult" and key in candidate:
            for name, entries in value.items():
                candidate[key][name] = [*(candidate[key].get(name) or ()), *entries]
        elif key != "content":
            candidate[key] = {**value} if isinstance(value, dict) else value


def _mark(part: Mapping[str, Any]) -> JSONObject:
    """Return all keys but the text. Only parts of the same kind are joined."""
    return {key: value for key, value in part.items() if key != "text"}


def read_reply(document: JSONObject) -> Reply:
    candidate = (document.get("candidates") or [{}])[0]
    parts: list[JSONObject] = (candidate.get("content") or {}).get("parts") or []
    calls = [part["functionCall"] for part in parts if "functionCall" in part]
    chosen = (candidate.get("logprobsResult") or {}).get("chosenCandidates") or []
    return Reply(
        model=text_or_none(document.get("modelVersion")),
        text="".join(part["text"] for part in parts if part.get("text") and not part.get("thought")),
        reasoning=joined(part.get("text") for part in parts if part.get("thought")),
        calls=tuple(RequestedCall(call.get("id"), call["name"], call.get("args") or {}) for call in calls),
        usage=usage_or_none(usage, document.get("usageMetadata")),
        finish=candidate.get("finishReason"),
        tokens=Tokens(
            ids=[entry["tokenId"] for entry in chosen] or None,
            logprobs=[entry["logProbability"] for entry in chosen] or None,
        ),
    )


def usage(reported: JSONObject) -> Usage:
    # the API counts thoughts separately from other output tokens
    return Usage(
        input_tokens=reported["promptTokenCount"] + (reported.get("toolUsePromptTokenCount") or 0),
        output_tokens=(reported.get("candidatesTokenCount") or 0) + (reported.get("thoughtsTokenCount") or 0),
        cached_tokens=reported.get("cachedContentTokenCount"),
        model_calls=1,
    )


GEMINI = Dialect("gemini", PATH, read_request, join_events, read_reply)
