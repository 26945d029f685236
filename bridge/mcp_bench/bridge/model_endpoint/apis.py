"""What the look at a model endpoint needs of each model API: a list of models, and the smallest request."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mcp_bench.plugins.needs import ModelApi

JSONObject = dict[str, Any]
WORDS = 300
"""Characters of an error message that are shown."""


@dataclass(frozen=True)
class Api:
    """One model API. Paths are relative to the endpoint's base URL, as its agents take it."""

    models: str
    """Path of the list of models, in one page."""
    headers: Callable[[str], dict[str, str]]
    """The headers for a key."""
    names: Callable[[Any], list[str]]
    """The names in the list. Can raise what a list of an unexpected form raises."""
    smallest: Callable[[str], tuple[str, JSONObject]]
    """Path and body of a request to a model, for one token where that is possible."""


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def ids(document: Any) -> list[str]:
    return [str(model["id"]) for model in document["data"]]


def gemini_names(document: Any) -> list[str]:
    return [str(model["name"]).removeprefix("models/") for model in document["models"]]


HELLO = [{"role": "user", "content": "Hi"}]
APIS: Mapping[ModelApi, Api] = {
    # https://platform.openai.com/docs/api-reference/models/list
    "chat-completions": Api(
        "/models",
        bearer,
        ids,
        lambda model: ("/chat/completions", {"model": model, "messages": HELLO, "max_tokens": 1}),
    ),
    "responses": Api(
        "/models",
        bearer,
        ids,
        lambda model: ("/responses", {"model": model, "input": "Hi", "max_output_tokens": 16}),
    ),
    # https://docs.anthropic.com/en/api/models-list
    "anthropic-messages": Api(
        "/v1/models?limit=1000",
        lambda key: {"x-api-key": key, "anthropic-version": "2023-06-01"},
        ids,
        lambda model: ("/v1/messages", {"model": model, "messages": HELLO, "max_tokens": 1}),
    ),
    # https://ai.google.dev/api/models
    "gemini": Api(
        "/v1beta/models?pageSize=1000",
        lambda key: {"x-goog-api-key": key},
        gemini_names,
        lambda model: (
            f"/v1beta/models/{model}:generateContent",
            {"contents": [{"parts": [{"text": "Hi"}]}], "generationConfig": {"maxOutputTokens": 1}},
        ),
    ),
}


def names_in(api: Api, body: bytes) -> list[str]:
    """Return the names in a list of models; none if it has another form."""
    try:
        return api.names(json.loads(body))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return []


def message_in(body: bytes, key: str) -> str:
    """Return the message of an error response in one line, without the key."""
    text = body.decode(errors="replace")
    try:
        found = json.loads(body)
        while isinstance(found, dict):
            found = next(filter(None, map(found.get, ("error", "message", "detail"))), None)
        text = found if isinstance(found, str) else text
    except (ValueError, RecursionError):
        pass
    clean = text.replace(key, "***") if len(key) > 4 else text
    return " ".join(clean.split())[:WORDS]
