"""The interface of a model API for the loop.

Each provider keeps the conversation in its own form, so that nothing that the API expects back (signed
thinking, ids) is lost.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol
from urllib.parse import urlsplit, urlunsplit

from mcp_bench.clients.connection import Outcome
from mcp_bench.clients.events import ClientError, ErrorKind, say_retry

REQUEST_SECONDS = 1800.0
"""Timeout for one answer: a local model is slow with a long conversation."""
ODD = (AttributeError, LookupError, TypeError, ValueError)
"""What an answer of an unexpected shape raises: the SDKs do not check answers."""


@dataclass(frozen=True)
class Settings:
    """How to reach the model, and the parameters of each request. None uses the API's default."""

    model: str
    base_url: str | None = None
    api_key: str = "none"
    system: str | None = None
    temperature: float | None = None
    max_tokens: int | None = None
    thinking: str | None = None
    max_retries: int = 6
    """The SDKs wait 0.5 to 8 seconds between attempts, with jitter, or as long as `retry-after` says."""
    one_action: bool = False
    """Each turn must be one tool call; the conversation keeps nothing else of it."""
    trust_env: bool = True
    """Whether this process's proxies and certificates (HTTP_PROXY, SSL_CERT_FILE) are for the client."""


@dataclass(frozen=True)
class OfferedTool:
    """A tool under the model's name for it. `schema` is a JSON Schema."""

    name: str
    description: str
    schema: dict[str, Any]


@dataclass(frozen=True)
class ToolRequest:
    """A call that the model requests. A call with a `problem` cannot be made."""

    id: str
    name: str
    arguments: dict[str, Any]
    problem: str | None = None


@dataclass(frozen=True)
class Usage:
    """Tokens; None if the endpoint does not report them. `cached_tokens` is part of `input_tokens`."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    model_calls: int = 1

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            _sum(self.input_tokens, other.input_tokens),
            _sum(self.output_tokens, other.output_tokens),
            _sum(self.cached_tokens, other.cached_tokens),
            self.model_calls + other.model_calls,
        )

    def as_dict(self) -> dict[str, int | None]:
        return asdict(self)


@dataclass(frozen=True)
class Reply:
    """One turn of the model. `stopped` is set if a limit or a refusal ended it early."""

    text: str | None
    reasoning: str | None
    calls: tuple[ToolRequest, ...]
    usage: Usage
    stopped: str | None = None


class Provider(Protocol):
    """A model API with one conversation."""

    messages: list[dict[str, Any]]
    """The conversation in the API's own form. It can be stored as JSON."""

    async def reply(self) -> Reply:
        """Request the next turn and add it to the conversation.

        Raises:
            ContextOverflowError: the conversation is too long for the model.
            ClientError: the endpoint refuses or cannot be reached, retries included.
        """
        ...

    def add_results(self, results: Sequence[tuple[ToolRequest, Outcome]]) -> None:
        """Add the outcomes of all calls of the last turn, in the same order. There is at least one."""
        ...

    def go_on(self, stored: Sequence[dict[str, Any]]) -> None:
        """Put the messages of a stored conversation before the new one.

        Raises:
            KeyError, TypeError: they are no messages.
        """
        ...


class ContextOverflowError(Exception):
    """The conversation is too long for the model; the text is the endpoint's own."""


OVERFLOW = re.compile(
    r"""
    context[ _-]?(length|window|size|limit|overflow)  # OpenAI's code, and most words: vLLM, SGLang, llama.cpp
    | (maximum|max)[ ](prompt[ ]length|context)       # xAI, Mistral
    | (prompt|input)[ ]is[ ]too[ ]long                # Anthropic, Bedrock
    | exceeds?[ ]the[ ]maximum[ ]number[ ]of[ ]tokens # Gemini
    | range[ ]of[ ]input[ ]length                     # DashScope
    | inputs?`?[ ]tokens[ ]\+                         # Text Generation Inference
    | too[ ]many[ ](input[ ])?tokens                  # Cohere
    | (input|prompt)\b.{0,40}\b(exceeds|longer[ ]than)\b.{0,60}\b(tokens?|length)\b
    """,
    re.IGNORECASE | re.VERBOSE,
)
"""The wordings of endpoints; there is no common code. They are those of `mcp_bench.plugins.output`."""
RATE = re.compile(r"rate.?limit|tokens per|per (minute|day)|\bTPM\b|quota", re.IGNORECASE)
"""A limit of tokens per minute is not an overflow, whatever its status is."""

RETRIED = (408, 409, 429)
"""Statuses below 500 after which the SDKs send a request again."""


async def _sent(request: Any) -> None:
    """Report a request that the SDK sends again, such as after a lost connection."""
    if (before := request.headers.get("x-stainless-retry-count", "0")) != "0":
        say_retry(f"failed attempts at a request: {before}")


async def _answered(response: Any) -> None:
    """Report a failure at once: the SDK may wait for long, and be ended meanwhile."""
    if response.status_code in RETRIED or response.status_code >= 500:
        say_retry(f"HTTP {response.status_code}")


HOOKS: dict[str, list[Callable[..., Any]]] = {"request": [_sent], "response": [_answered]}
"""For the SDKs' HTTP clients."""


def refusal(status: int, code: str | None, message: str, api_key: str) -> Exception:
    """Return the error for a failed status. Its text never has the key."""
    clean = message.replace(api_key, "***") if len(api_key) > 4 else message
    worded = status == 413 or (status in (400, 422) and OVERFLOW.search(message))
    if code == "context_length_exceeded" or (worded and not RATE.search(message)):
        return ContextOverflowError(clean)
    no_model = status == 404 and (code == "model_not_found" or "model" in message.lower())
    kind: ErrorKind = "login" if status == 401 else "usage" if no_model else "endpoint"
    return ClientError(kind, f"the model endpoint answered {status}: {clean}")


def unreachable(error: Exception, url: object) -> ClientError:
    """Return the error for an endpoint that gave no usable answer after all retries."""
    cause = error.__cause__ or error
    return ClientError(
        "endpoint", f"no usable answer from the model endpoint {_shown(url)}: {type(cause).__name__}: {cause}"
    )


def no_answer(got: object, url: object) -> ClientError:
    """Return the error for an answer that is no turn of a model."""
    return ClientError("endpoint", f"no answer in the API's form came from {_shown(url)}: {str(got)[:500]}")


def _shown(url: object) -> str:
    """Return a URL without its login and its query: they can have a key, and errors are recorded."""
    parts = urlsplit(str(url))
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def count(value: object) -> int | None:
    """Return a number of tokens, or None for anything else in its place."""
    return value if isinstance(value, int) else None


CUT_OFF = "The answer ended at its limit of tokens, in the middle of this call."


def parse_arguments(given: object) -> tuple[dict[str, Any], str | None]:
    """Return a call's arguments, which some servers send as an object, and the problem with them, if any."""
    text = "" if given is None else given if isinstance(given, str) else json.dumps(given)
    if not text.strip():
        return {}, None
    try:
        arguments = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError) as error:
        return {}, f"The arguments are not valid JSON ({error}): {text[:500]}"
    if not isinstance(arguments, dict):
        return {}, f"The arguments must be a JSON object, not: {text[:500]}"
    return sendable(arguments), None


def sendable(value: Any) -> Any:
    """Return a JSON value with `?` for lone surrogates, which models write but UTF-8 cannot encode.

    A number like 1e999, which Python reads as infinite, becomes text.
    """
    return json.loads(json.dumps(value, ensure_ascii=False).encode(errors="replace"), parse_constant=str)


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text} is too large for a number")
    return value


def _sum(left: int | None, right: int | None) -> int | None:
    return right if left is None else left if right is None else left + right


def texts_of(content: Any) -> tuple[str | None, str | None]:
    """Return the text and the reasoning in a message's content. Mistral's models send a list of parts.

    https://docs.mistral.ai/capabilities/reasoning
    """
    if not isinstance(content, list):
        return content, None
    thoughts = [part.get("thinking") for part in content if isinstance(part, dict)]
    inner = [part for thought in thoughts if isinstance(thought, list) for part in thought]
    return _joined(content) or None, _joined(inner) or None


def _joined(parts: Iterable[Any]) -> str:
    """Return the text of the parts that are text."""
    texts = (part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text")
    return "".join(text for text in texts if isinstance(text, str))
