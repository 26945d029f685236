"""What is read out of a model request and its answer, whichever API they are of.

A dialect is one model API. Each has a module of its own that defines a `Dialect`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bench.recorder.trajectory import Usage

JSONObject = dict[str, Any]

ODD = (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError)
"""What reading content of an unexpected form raises."""


@dataclass(frozen=True)
class Asked:
    """A request. `parameters` go by the names of the Chat Completions API where it has one."""

    model: str | None
    parameters: JSONObject
    offers_tools: bool


@dataclass(frozen=True)
class AskedCall:
    """A tool call as the model wrote it; `arguments` None where they are no JSON object."""

    id: str | None
    name: str
    arguments: JSONObject | None


@dataclass(frozen=True)
class Tokens:
    """Tokens as the model server counts them: ids, and natural logarithms of their probabilities."""

    prompt_ids: list[int] | None = None
    ids: list[int] | None = None
    logprobs: list[float] | None = None


@dataclass(frozen=True)
class Reply:
    """An answer. `finish` is the API's own word for why it ended; None: it is not whole."""

    model: str | None
    text: str
    reasoning: str
    calls: tuple[AskedCall, ...]
    usage: Usage | None
    finish: str | None
    tokens: Tokens = Tokens()


@dataclass(frozen=True)
class Dialect:
    """One model API. Its functions may raise any of ODD on content of an unexpected form."""

    name: str
    path: re.Pattern[str]
    """Fits the end of the path, without the query, where requests for an answer go."""
    asked: Callable[[str, JSONObject], Asked]
    """Read a request: its path and body."""
    whole: Callable[[Sequence[JSONObject]], JSONObject]
    """Put the events of a stream together to the answer that the API gives in one piece."""
    reply: Callable[[JSONObject], Reply]
    """Read an answer in one piece."""


def picked(body: Mapping[str, Any], names: Mapping[str, str]) -> JSONObject:
    """Return what `body` has under the keys of `names`, by the values of `names`."""
    return {name: body[key] for key, name in names.items() if body.get(key) is not None}


def same_names(*names: str) -> dict[str, str]:
    return {name: name for name in names}


def call_arguments(text: str) -> JSONObject | None:
    """Return arguments that the model wrote as text; None where they are no JSON object."""
    try:
        value = json.loads(text or "{}")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def joined(texts: Iterable[str | None]) -> str:
    """Return the texts that there are, a blank line between them."""
    return "\n\n".join(text for text in texts if text)


def text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None
