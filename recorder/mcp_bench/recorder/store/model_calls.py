"""Requests of agents to their models, captured at the endpoint: one row each, retries and failures too.

A request is stored before it is passed on, its response when it has ended.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import Body, LargeBody, fill_blob, stored_body
from mcp_bench.recorder.model_api.dialects.dialect import JSONObject
from mcp_bench.recorder.model_api.exchange import READABLE, Ending, Exchange, read_exchange
from mcp_bench.recorder.store.database import Step, Writer
from mcp_bench.recorder.store.keys import Key
from mcp_bench.recorder.store.signatures import tag_rows
from mcp_bench.recorder.trajectory import Usage

_COLUMNS = (
    "id, episode, started_us, first_us, ended_us, kind, outcome, dialect, model, parameters, usage, finish,"
    " message, method, path, status, request_headers, response_headers"
)


@dataclass(frozen=True)
class ModelRequest:
    """A request that is complete. Whatever is secret in it was taken out."""

    id: str
    episode: str
    started_us: int
    method: str
    path: str
    """With its query."""
    headers: Mapping[str, str]
    body: Body


@dataclass(frozen=True)
class ModelResponse:
    """What came back, as far as it came. Header names are in lower case."""

    first_us: int | None
    ended_us: int
    status: int | None
    headers: Mapping[str, str]
    body: Body
    ending: Ending


@dataclass(frozen=True, slots=True)
class StoredModelCall:
    """A row without its bodies. Times in microseconds since the epoch; `ended_us` and `outcome` None where
    the referee died."""

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
    """Return when a request is stored.

    Raises:
        StorageError: it cannot be.
    """
    headers = jsonrpc.dumps(dict(request.headers))
    row = (request.id, request.episode, request.started_us, request.method, request.path, headers)
    statement = (
        "INSERT INTO model_calls (id, episode, started_us, method, path, request_headers, request)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)"
    )
    body = request.body
    tagged = _tag(writer.key, request.id)
    if isinstance(body, bytes):
        await writer.commit((statement, (*row, stored_body(body))), tagged)
        return
    await writer.commit(
        (statement, (*row, sqlite3.Binary(b""))), _fill(request.id, "request", body), tagged, slow=True
    )


async def settle(writer: Writer, request: ModelRequest, response: ModelResponse) -> None:
    """Read what an exchange says, and return when its response is stored. Its bodies are closed.

    Raises:
        StorageError: it cannot be.
    """
    try:
        said = await anyio.to_thread.run_sync(_read, request, response)
        usage = said.usage.model_dump_json(exclude_none=True) if said.usage else None
        body = response.body
        row = {
            "first_us": response.first_us,
            "ended_us": response.ended_us,
            "kind": said.kind,
            "outcome": said.outcome,
            "dialect": said.dialect,
            "model": said.model and jsonrpc.clean(said.model),
            "parameters": jsonrpc.dumps(said.parameters),
            "usage": usage,
            "finish": said.finish and jsonrpc.clean(str(said.finish)),
            "status": response.status,
            "response_headers": jsonrpc.dumps(dict(response.headers)),
            "response": stored_body(body) if isinstance(body, bytes) else sqlite3.Binary(b""),
            "answer": jsonrpc.dumps(said.answer) if said.answer is not None else None,
        }
        statement = f"UPDATE model_calls SET {', '.join(f'{name} = ?' for name in row)} WHERE id = ?"  # noqa: S608
        steps: list[Step] = [(statement, (*row.values(), request.id))]
        if isinstance(body, LargeBody):
            steps.append(_fill(request.id, "response", body))
        steps.append(_tag(writer.key, request.id))
        await writer.commit(*steps, slow=isinstance(body, LargeBody))
    finally:
        for one in (request.body, response.body):
            if isinstance(one, LargeBody):
                one.close()


def read_model_calls(connection: sqlite3.Connection, episode: str) -> list[StoredModelCall]:
    """Return the captured calls of an episode in the order of their requests."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM model_calls WHERE episode = ? ORDER BY id",  # noqa: S608
        [episode],
    )
    return [_stored(row) for row in rows]


def read_answers(connection: sqlite3.Connection, episode: str) -> Iterator[tuple[str, str, JSONObject]]:
    """Yield `(id, dialect, answer)` of the calls of an episode that asked for a turn and got one."""
    rows = connection.execute(
        "SELECT id, dialect, answer FROM model_calls WHERE episode = ? AND kind = 'turn'"
        " AND outcome = 'ok' AND answer IS NOT NULL ORDER BY id",
        [episode],
    )
    for number, dialect, answer in rows:
        yield number, dialect, json.loads(answer)


def read_bodies(connection: sqlite3.Connection, call: str) -> tuple[str | bytes, str | bytes | None, Any]:
    """Return request and response of a call, as they are stored, and the answer in one piece."""
    row = connection.execute(
        "SELECT request, response, answer FROM model_calls WHERE id = ?", [call]
    ).fetchone()
    return row[0], row[1], json.loads(row[2]) if row[2] else None


def total_usage(calls: Iterable[StoredModelCall]) -> Usage | None:
    """Return the usage of the calls that got an answer, side work included; None where one of them did not
    tell, since a sum that leaves out some is none."""
    answered = [call for call in calls if call.kind != "other" and call.outcome == "ok"]
    told = [call.usage for call in answered if call.usage is not None]
    if not told or len(told) < len(answered):
        return None
    cached = [usage.cached_tokens for usage in told if usage.cached_tokens is not None]
    return Usage(
        input_tokens=sum(usage.input_tokens or 0 for usage in told),
        output_tokens=sum(usage.output_tokens or 0 for usage in told),
        cached_tokens=sum(cached) if cached else None,
        model_calls=len(told),
    )


def preferred_usage(captured: Usage | None, told: Usage | None) -> Usage | None:
    """Return the usage of an episode: what the endpoint counted, where that is whole, else what the agent
    told. The two are never added. A cost is the agent's: endpoints tell none."""
    if captured is None:
        return told
    return captured.model_copy(update={"cost_usd": told.cost_usd if told else None})


def _tag(key: Key, call: str) -> Step:
    return lambda connection: tag_rows(connection, key, "model_calls", "id = ?", call)


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
