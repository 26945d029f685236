"""Parse one captured exchange with a model endpoint from its stored bytes.

Malformed input never raises. Unreadable parts are left out; the stored bytes still have them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from mcp_bench.recorder.model_api.dialects import dialect_of
from mcp_bench.recorder.model_api.dialects.dialect import (
    MALFORMED,
    Dialect,
    JSONObject,
    ModelRequest,
    Reply,
)
from mcp_bench.recorder.model_api.dialects.sse import json_events
from mcp_bench.recorder.trajectory import Usage

Ending = Literal["complete", "cut", "abandoned"]
"""How a response ended: complete, cut off by the endpoint, or abandoned by the agent."""
Outcome = Literal["ok", "error", "cut", "abandoned"]
Kind = Literal["turn", "side", "other"]

READABLE = 32 << 20
"""Maximum size of a parsed body, in bytes. Larger bodies are stored but not parsed."""


@dataclass(frozen=True)
class Exchange:
    """A request and its answer, as far as they can be parsed."""

    kind: Kind
    """`turn`: a completion request with tools. `side`: a completion request without tools (a title, a
    probe). `other`: any other request (counting tokens, listing models)."""
    outcome: Outcome
    dialect: str | None = None
    model: str | None = None
    parameters: JSONObject = field(default_factory=dict)
    usage: Usage | None = None
    finish: str | None = None
    answer: JSONObject | None = None
    """The complete answer; streamed answers are reassembled."""


def read_exchange(
    path: str,
    request: bytes,
    status: int | None,
    response: bytes,
    ending: Ending,
    headers: Mapping[str, str],
) -> Exchange:
    """Parse an exchange. `headers` are those of the response, with names in lower case."""
    path = path.partition("?")[0]
    dialect = dialect_of(path)
    if dialect is None:
        return Exchange("other", _outcome(status, ending, None, None))
    model_request, answer, reply = ModelRequest(None, {}, False), None, None
    with suppress(*MALFORMED):
        model_request = dialect.read_request(path, _object(request))
    with suppress(*MALFORMED, zlib.error):
        answer = _answer(dialect, decoded(response, headers.get("content-encoding", "")), headers)
    if answer is not None:
        reply = reply_of(dialect, answer)
    return Exchange(
        kind="turn" if model_request.offers_tools else "side",
        outcome=_outcome(status, ending, answer, reply, streamed=_streamed(headers)),
        dialect=dialect.name,
        model=(reply.model if reply else None) or model_request.model,
        parameters=model_request.parameters,
        usage=reply.usage if reply else None,
        finish=reply.finish if reply else None,
        answer=answer,
    )


def reply_of(dialect: Dialect, answer: JSONObject) -> Reply | None:
    """Parse a complete answer; return None if it is malformed."""
    with suppress(*MALFORMED):
        return dialect.read_reply(answer)
    return None


def decoded(body: bytes, coding: str) -> bytes:
    """Undo a content coding. A truncated body is decoded as far as it goes.

    Raises:
        ValueError: the coding is not supported.
        zlib.error: the body does not have that coding.
    """
    for name in reversed([part.strip().lower() for part in coding.split(",")]):
        if name in ("", "identity"):
            continue
        if name not in ("gzip", "x-gzip", "deflate"):
            raise ValueError(f"content coding {name!r} is not supported")
        body = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(body, READABLE)
    return body


def _answer(dialect: Dialect, body: bytes, headers: Mapping[str, str]) -> JSONObject | None:
    text = body.decode("utf-8", "replace")
    if _streamed(headers):
        events = list(json_events(text))
        whole = dialect.join_events(events) if events else None
        failed = next((event["error"] for event in events if event.get("error")), None)
        return {**whole, "error": failed} if whole is not None and failed else whole
    document = json.loads(text)
    if isinstance(document, list):  # Gemini's stream without alt=sse
        return dialect.join_events(document)
    return document if isinstance(document, dict) else None


def _streamed(headers: Mapping[str, str]) -> bool:
    return "event-stream" in headers.get("content-type", "")


def _object(body: bytes) -> JSONObject:
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError("not a JSON object")
    return document


def _outcome(
    status: int | None,
    ending: Ending,
    answer: JSONObject | None,
    reply: Reply | None,
    *,
    streamed: bool = False,
) -> Outcome:
    if (status is not None and status >= 400) or (answer and answer.get("error")):
        return "error"
    if reply is not None and reply.finish:
        return "ok"  # agents may disconnect as soon as they have the whole answer
    if ending != "complete":
        return ending
    return "cut" if streamed and reply is not None else "ok"
