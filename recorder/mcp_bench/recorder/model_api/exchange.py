"""What one captured exchange with a model endpoint says, read from the bytes that were stored.

Never raises on what an agent or an endpoint sent: what cannot be read is left out, and the bytes have it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from mcp_bench.recorder.model_api.dialects import dialect_of
from mcp_bench.recorder.model_api.dialects.dialect import ODD, Asked, Dialect, JSONObject, Reply
from mcp_bench.recorder.model_api.dialects.sse import json_events
from mcp_bench.recorder.trajectory import Usage

Ending = Literal["complete", "cut", "abandoned"]
"""How a response ended on the wire: whole, broken off by the endpoint, or left by the agent."""
Outcome = Literal["ok", "error", "cut", "abandoned"]
Kind = Literal["turn", "side", "other"]

READABLE = 32 << 20
"""Bytes up to which a body is read; a larger one is only stored."""


@dataclass(frozen=True)
class Exchange:
    """What was asked and what came back, as far as it can be told."""

    kind: Kind
    """`turn`: asks for an answer, and offers tools; `side`: asks for one without tools (a title, a
    probe); `other`: asks for no answer (counts tokens, lists models)."""
    outcome: Outcome
    dialect: str | None = None
    model: str | None = None
    parameters: JSONObject = field(default_factory=dict)
    usage: Usage | None = None
    finish: str | None = None
    answer: JSONObject | None = None
    """The answer in one piece, also where it was streamed."""


def read_exchange(
    path: str,
    request: bytes,
    status: int | None,
    response: bytes,
    ending: Ending,
    headers: Mapping[str, str],
) -> Exchange:
    """Read an exchange. `headers` are those of the response, with names in lower case."""
    path = path.partition("?")[0]
    dialect = dialect_of(path)
    if dialect is None:
        return Exchange("other", _outcome(status, ending, None, None))
    asked, answer, reply = Asked(None, {}, False), None, None
    with suppress(*ODD):
        asked = dialect.asked(path, _object(request))
    with suppress(*ODD, zlib.error):
        answer = _answer(dialect, decoded(response, headers.get("content-encoding", "")), headers)
    if answer is not None:
        reply = reply_of(dialect, answer)
    return Exchange(
        kind="turn" if asked.offers_tools else "side",
        outcome=_outcome(status, ending, answer, reply, streamed=_streamed(headers)),
        dialect=dialect.name,
        model=(reply.model if reply else None) or asked.model,
        parameters=asked.parameters,
        usage=reply.usage if reply else None,
        finish=reply.finish if reply else None,
        answer=answer,
    )


def reply_of(dialect: Dialect, answer: JSONObject) -> Reply | None:
    """Read an answer in one piece; None where it is none."""
    with suppress(*ODD):
        return dialect.reply(answer)
    return None


def decoded(body: bytes, coding: str) -> bytes:
    """Undo a content coding, as far as it came.

    Raises:
        ValueError: nobody here knows the coding.
        zlib.error: the body has another one.
    """
    for name in reversed([part.strip().lower() for part in coding.split(",")]):
        if name in ("", "identity"):
            continue
        if name not in ("gzip", "x-gzip", "deflate"):
            raise ValueError(f"a body in the content coding {name!r} is only stored")
        body = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32).decompress(body, READABLE)
    return body


def _answer(dialect: Dialect, body: bytes, headers: Mapping[str, str]) -> JSONObject | None:
    text = body.decode("utf-8", "replace")
    if _streamed(headers):
        events = list(json_events(text))
        whole = dialect.whole(events) if events else None
        failed = next((event["error"] for event in events if event.get("error")), None)
        return {**whole, "error": failed} if whole is not None and failed else whole
    document = json.loads(text)
    if isinstance(document, list):  # Gemini's stream of another form
        return dialect.whole(document)
    return document if isinstance(document, dict) else None


def _streamed(headers: Mapping[str, str]) -> bool:
    return "event-stream" in headers.get("content-type", "")


def _object(body: bytes) -> JSONObject:
    document = json.loads(body)
    if not isinstance(document, dict):
        raise ValueError("no JSON object")
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
        return "ok"  # an agent may go as soon as it has what it wants
    if ending != "complete":
        return ending
    return "cut" if streamed and reply is not None else "ok"
