"""The common form of model requests and answers.

A dialect is one model API. Each dialect is a module that defines a `Dialect`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from mcp_bench.recorder.trajectory import Usage

JSONObject = dict[str, Any]

MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
"""Exceptions raised by parsing content of an unexpected form."""


@dataclass(frozen=True)
class ModelRequest:
    """A request. `parameters` use the names of the Chat Completions API where it has the parameter."""

    model: str | None
    parameters: JSONObject
    offers_tools: bool


@dataclass(frozen=True)
class RequestedCall:
    """A tool call as the model wrote it. `arguments` is None if they are not a JSON object."""

    id: str | None
    name: str
    arguments: JSONObject | None

    def __post_init__(self) -> None:
        _refuse_other_than_text("" if self.id is None else self.id, self.name)


@dataclass(frozen=True)
class Tokens:
    """Tokens as the model server reports them: ids and natural log probabilities."""

    prompt_ids: list[int] | None = None
    ids: list[int] | None = None
    logprobs: list[float] | None = None
    version: str | None = None
    """Of the weights, where a policy is trained."""


def _refuse_other_than_text(*values: object) -> None:
    # endpoints send anything, and who reads a reply relies on its types
    if not all(isinstance(value, str) for value in values):
        raise TypeError("an answer has something else in place of a text")


CUT = ("length", "max_tokens", "incomplete")
"""What the APIs call the end of an answer by its limit of tokens."""


@dataclass(frozen=True)
class Reply:
    """An answer. `finish` is the API's own finish reason, or None if the answer is incomplete."""

    model: str | None
    text: str
    reasoning: str
    calls: tuple[RequestedCall, ...]
    usage: Usage | None
    finish: str | None
    tokens: Tokens = Tokens()

    def __post_init__(self) -> None:
        _refuse_other_than_text(self.text, self.reasoning)

    @property
    def cut(self) -> bool:
        """Whether the limit of tokens ended it."""
        return self.finish in CUT


@dataclass(frozen=True)
class Dialect:
    """One model API. Its functions may raise any of `MALFORMED` on content of an unexpected form."""

    name: str
    path: re.Pattern[str]
    """Matches the end of the path (without the query) of completion requests."""
    read_request: Callable[[str, JSONObject], ModelRequest]
    """Parse a request from its path and body."""
    join_events: Callable[[Sequence[JSONObject]], JSONObject]
    """Join the events of a stream into the answer that the API gives without streaming."""
    read_reply: Callable[[JSONObject], Reply]
    """Parse a complete answer."""


EXTENSION = ("prompt_token_ids", "token_ids", "token_logprobs")
"""Fields of an answer in which our engine reports tokens in every API."""


def extension_tokens(document: Mapping[str, Any]) -> Tokens | None:
    """Return the tokens in the fields `EXTENSION` of an answer, or None if it lacks them."""
    if document.get("token_logprobs") is None:
        return None
    return Tokens(
        document.get("prompt_token_ids"),
        document.get("token_ids"),
        document["token_logprobs"],
        text_or_none(document.get("system_fingerprint")),
    )


def usage_or_none(read: Callable[[JSONObject], Usage], reported: Any) -> Usage | None:
    """Return what `read` makes of the usage in an answer; None if it lacks numbers: the rest can be read."""
    with suppress(*MALFORMED):
        return read(reported)
    return None


def picked(body: Mapping[str, Any], names: Mapping[str, str]) -> JSONObject:
    """Return the values of `body` that are not None, renamed: `names` maps keys of `body` to new keys."""
    return {name: body[key] for key, name in names.items() if body.get(key) is not None}


def same_names(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def call_arguments(text: str) -> JSONObject | None:
    """Parse arguments that the model wrote as text; return None if they are not a JSON object."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def joined(texts: Iterable[str | None]) -> str:
    """Join the non-empty texts with blank lines."""
    return "\n\n".join(text for text in texts if text)


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
