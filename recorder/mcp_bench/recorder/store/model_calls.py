"""Requests of agents to their models, captured at the endpoint: one row each, including retries and failures.

A request is stored before it is forwarded, its response when it has ended.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import Body, LargeBody, fill_blob, stored_body
from mcp_bench.recorder.model_api.dialects import BY_NAME
from mcp_bench.recorder.model_api.dialects.dialect import JSONObject, Tokens
from mcp_bench.recorder.model_api.exchange import READABLE, Ending, Exchange, read_exchange, reply_of
from mcp_bench.recorder.store.database import Step, Writer
from mcp_bench.recorder.store.model_tokens import (
    add_tokens,
    read_tokens,
    storable,
    with_tokens,
    without_tokens,
)
from mcp_bench.recorder.store.signatures import Signer, tag_rows
from mcp_bench.recorder.trajectory import Usage

_COLUMNS = (
    "id, episode, started_us, first_us, ended_us, kind, outcome, dialect, model, parameters, usage, finish,"
    " message, method, path, status, request_headers, response_headers"
)


@dataclass(frozen=True)
class ModelRequest:
    """A complete request, with secrets removed."""

    id: str
    episode: str
    started_us: int
    method: str
    path: str
    """With the query."""
    headers: Mapping[str, str]
    body: Body


@dataclass(frozen=True)
class ModelResponse:
    """The response, possibly incomplete. Header names are in lower case."""

    first_us: int | None
    ended_us: int
    status: int | None
    headers: Mapping[str, str]
    body: Body
    ending: Ending


@dataclass(frozen=True, slots=True)
class StoredModelCall:
    """A row without its bodies. Times are microseconds since the epoch.

    `ended_us` and `outcome` are None if the referee died.
    """

    id: str
    episode: str
    started_us: int
    first_us: int | None
    ended_us: int | None
    kind: str | None
    outcome: str | None
    dialect: str | None
    model: str | None
    parameters: JSONObject
    usage: Usage | None
    finish: str | None
    message: int | None
    method: str
    path: str
    status: int | None
    request_headers: dict[str, str]
    response_headers: dict[str, str]


async def begin(writer: Writer, request: ModelRequest) -> None:
    """Store a request before it is forwarded.

    Raises:
        StorageError: it cannot be stored.
    """
    headers = jsonrpc.dumps(dict(request.headers))
    row = (request.id, request.episode, request.started_us, request.method, request.path, headers)
    statement = (
        "INSERT INTO model_calls (id, episode, started_us, method, path, request_headers, request)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    body = request.body
    tagged = _tag(writer.signer, request.id)
    if isinstance(body, bytes):
        await writer.commit((statement, (*row, stored_body(body))), tagged)
        return
    await writer.commit(
        (statement, (*row, sqlite3.Binary(b""))), _fill(request.id, "request", body), tagged, slow=True
    )


async def settle(writer: Writer, request: ModelRequest, response: ModelResponse) -> None:
    """Parse an exchange, store its response, and close its bodies.

    Raises:
        StorageError: it cannot be stored.
    """
    try:
        parsed = await anyio.to_thread.run_sync(_read, request, response)
        usage = parsed.usage.model_dump_json(exclude_none=True) if parsed.usage else None
        body, answer = response.body, parsed.answer
        tokens = tokens_of(parsed)
        if tokens is not None and answer is not None:
            answer = without_tokens(answer)
        row = {
            "first_us": response.first_us,
            "ended_us": response.ended_us,
            "kind": parsed.kind,
            "outcome": parsed.outcome,
            "dialect": parsed.dialect,
            "model": parsed.model and jsonrpc.clean(parsed.model),
            "parameters": jsonrpc.dumps(parsed.parameters),
            "usage": usage,
            "finish": parsed.finish and jsonrpc.clean(str(parsed.finish)),
            "status": response.status,
            "response_headers": jsonrpc.dumps(dict(response.headers)),
            "response": stored_body(body) if isinstance(body, bytes) else sqlite3.Binary(b""),
            "answer": jsonrpc.dumps(answer) if answer is not None else None,
        }
        statement = f"UPDATE model_calls SET {', '.join(f'{name} = ?' for name in row)} WHERE id = ?"  # noqa: S608
        steps: list[Step] = [(statement, (*row.values(), request.id))]
        if isinstance(body, LargeBody):
            steps.append(_fill(request.id, "response", body))
        steps.append(_tag(writer.signer, request.id))
        if tokens is not None:
            steps.append(partial(_add_tokens, writer.signer, request, tokens))
        await writer.commit(*steps, slow=isinstance(body, LargeBody))
    finally:
        for one in (request.body, response.body):
            if isinstance(one, LargeBody):
                one.close()


def tokens_of(exchange: Exchange) -> Tokens | None:
    """Return the tokens of an answer that go into arrays; None if it reports none, or not all of them."""
    dialect = BY_NAME.get(exchange.dialect or "")
    if dialect is None or exchange.answer is None or exchange.outcome != "ok":
        return None
    reply = reply_of(dialect, exchange.answer)
    return reply.tokens if reply is not None and storable(reply.tokens) else None


def _add_tokens(
    signer: Signer, request: ModelRequest, tokens: Tokens, connection: sqlite3.Connection
) -> None:
    add_tokens(connection, signer, request.id, request.episode, tokens)


def read_model_calls(connection: sqlite3.Connection, episode: str) -> list[StoredModelCall]:
    """Return the captured calls of an episode in the order of their requests."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM model_calls WHERE episode = ? ORDER BY id",  # noqa: S608
        [episode],
    )
    return [_stored(row) for row in rows]


def read_answers(connection: sqlite3.Connection, episode: str) -> Iterator[tuple[str, str, JSONObject]]:
    """Yield `(id, dialect, answer)` of the calls of an episode that requested a turn and got one.

    An agent that makes the calls itself, such as `search`, never offers tools: its requests on the side are
    what it works with.
    """
    rows = connection.execute(
        "SELECT id, dialect, answer FROM model_calls WHERE episode = :episode AND kind = CASE WHEN EXISTS"
        " (SELECT 1 FROM model_calls WHERE episode = :episode AND kind = 'turn') THEN 'turn' ELSE 'side' END"
        " AND outcome = 'ok' AND answer IS NOT NULL ORDER BY id",
        {"episode": episode},
    )
    tokens = read_tokens(connection, episode)
    for number, dialect, answer in rows:
        yield number, dialect, with_tokens(json.loads(answer), tokens.get(number))


def read_bodies(connection: sqlite3.Connection, call: str) -> tuple[str | bytes, str | bytes | None, Any]:
    """Return the request and response of a call as stored, and the assembled answer."""
    row = connection.execute(
        "SELECT request, response, answer FROM model_calls WHERE id = ?", [call]
    ).fetchone()
    return row[0], row[1], json.loads(row[2]) if row[2] else None


def total_usage(calls: Iterable[StoredModelCall]) -> Usage | None:
    """Return the total usage of the calls that got an answer, side calls included.

    The total is None if one of them did not report its usage, since it would be too low.
    """
    answered = [call for call in calls if call.kind != "other" and call.outcome == "ok"]
    reported = [call.usage for call in answered if call.usage is not None]
    if not reported or len(reported) < len(answered):
        return None
    cached = [usage.cached_tokens for usage in reported if usage.cached_tokens is not None]
    return Usage(
        input_tokens=sum(usage.input_tokens or 0 for usage in reported),
        output_tokens=sum(usage.output_tokens or 0 for usage in reported),
        cached_tokens=sum(cached) if cached else None,
        model_calls=len(reported),
    )


def preferred_usage(captured: Usage | None, reported: Usage | None) -> Usage | None:
    """Return the usage of an episode: as captured at the endpoint if complete, else as the agent reported it.

    The two are never added. The cost is always the agent's, since endpoints report none.
    """
    if captured is None:
        return reported
    return captured.model_copy(update={"cost_usd": reported.cost_usd if reported else None})


def _tag(signer: Signer, call: str) -> Step:
    return lambda connection: tag_rows(connection, signer, "model_calls", "id = ?", call)


def _fill(call: str, column: str, body: LargeBody) -> Step:
    def fill(connection: sqlite3.Connection) -> None:
        (number,) = connection.execute("SELECT rowid FROM model_calls WHERE id = ?", [call]).fetchone()
        fill_blob(connection, "model_calls", column, number, body)

    return fill


def _read(request: ModelRequest, response: ModelResponse) -> Exchange:
    return read_exchange(
        request.path,
        _readable(request.body),
        response.status,
        _readable(response.body),
        response.ending,
        response.headers,
    )


def _readable(body: Body) -> bytes:
    if isinstance(body, bytes):
        return body
    return b"".join(body.chunks()) if body.size <= READABLE else b""


def _stored(row: Iterable[Any]) -> StoredModelCall:
    facts = dict(zip(_COLUMNS.split(", "), row, strict=True))
    facts["parameters"] = json.loads(facts["parameters"] or "{}")
    facts["usage"] = Usage.model_validate_json(facts["usage"]) if facts["usage"] else None
    for name in ("request_headers", "response_headers"):
        facts[name] = json.loads(facts[name] or "{}")
    return StoredModelCall(**facts)
