"""Read and write the rows of one episode: messages, calls, frames, tools and flags."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import CHUNK, LARGE, body_bytes
from mcp_bench.recorder.records import Flag, RecordedCall, RunInfo
from mcp_bench.recorder.store.schema import PLANNED
from mcp_bench.recorder.trajectory import FunctionSchema, Message, ToolSchema
from mcp_bench.servers.contracts import Image

OVERLAP = 4096
"""Bytes by which consecutive pieces of a large frame overlap."""
CLOCK_STEP_US = 60_000_000
"""A recording of an earlier version is searched as if its clock was set back by this much at most."""
NEIGHBOURS = 8
"""Episodes that ended before another one began, whose seals are read to find that one's frames."""
_NO_END = (1 << 63) - 1
"""The largest number that a frame can have."""
IMAGE = "[image: "
"""Texts of results with images contain it."""
_MESSAGES = TypeAdapter(list[Message])
_NO_RESULT = {
    "transport_error": "The connection closed before a result arrived.",
    "cancelled": "The call was cancelled before a result arrived.",
}

# the columns are in the order of `reader.StoredEpisode`
EPISODES = """
    SELECT e.id, e.run, r.benchmark, r.benchmark_version, coalesce(e.agent, r.agent) AS agent,
           coalesce(e.agent_version, r.agent_version) AS agent_version,
           coalesce(e.model, r.model) AS model, coalesce(e.isolation, r.isolation) AS isolation,
           r.home, r.tools AS tools_mode,
           e.task, e.split, e.domain, e.prompt, e.seed, e.repeat, e.attempt, e.started_us, e.ended_us,
           e.termination, e.invalid, e.invalid_detail, e.exit_code, e.answer, e.usage, e.connections,
           (SELECT count(*) FROM calls c WHERE c.episode = e.id) AS calls,
           (SELECT count(*) FROM calls c WHERE c.episode = e.id AND c.outcome IS NOT 'ok') AS failed_calls,
           g.partial, g.strict, g.grader_version, e.probes, coalesce(s.verdict, 'unknown') AS taint,
           r.settings, m.score, coalesce(m.certain, 1) AS certain,
           e.id NOT IN (SELECT episode FROM untrainable) AS trainable,
           (SELECT sum(json_extract(a.usage, '$.cost_usd')) FROM asked a WHERE a.episode = e.id) AS roles_usd,
           m.submissions
    FROM episodes e JOIN runs r ON r.id = e.run LEFT JOIN sealed.grades g ON g.episode = e.id
        LEFT JOIN sealed.scans s ON s.episode = e.id LEFT JOIN scores m ON m.episode = e.id
"""
# in the order of `reader.RunSummary`
SUMMARY = f"""
    SELECT id, created_us, benchmark, agent, model, {PLANNED},
           CASE WHEN graded THEN (SELECT count(*) FROM sealed.grades)
                ELSE (SELECT count(*) FROM episodes WHERE ended_us IS NOT NULL AND invalid IS NULL) END
    FROM runs
"""  # noqa: S608
COUNTED = f" WHERE {PLANNED} >= -1"
"""Follows `SUMMARY`. It always holds, and makes SQLite take the length from its index, if there is one."""
LAST = """
    WHERE NOT EXISTS (SELECT 1 FROM episodes later WHERE later.run = e.run AND later.task = e.task
        AND later.seed = e.seed AND later.repeat = e.repeat AND later.attempt > e.attempt)
"""
"""Follows `EPISODES`, `OUTCOME` or `OUTCOMES`: the last attempt of each slot only."""
OUTCOME = """
    SELECT total(invalid IS NOT NULL), count(partial), avg(partial), avg(strict) FROM (
    SELECT e.invalid, g.partial, g.strict FROM episodes e
    LEFT JOIN sealed.grades g ON g.episode = e.id AND e.invalid IS NULL
"""
COST = """
    SELECT total(json_extract(usage, '$.cost_usd')) FROM
    (SELECT usage FROM episodes UNION ALL SELECT usage FROM asked)
"""
OUTCOMES = """
    SELECT e.id, e.run, coalesce(e.agent, r.agent), coalesce(e.model, r.model), e.task, e.split, e.domain,
           e.ended_us, e.invalid, g.partial, g.strict
    FROM episodes e JOIN runs r ON r.id = e.run LEFT JOIN sealed.grades g ON g.episode = e.id
"""

RUNNING = """
    SELECT e.id, e.run, coalesce(e.agent, r.agent), coalesce(e.model, r.model), e.task, e.attempt,
           e.started_us, (SELECT count(*) FROM calls c WHERE c.episode = e.id),
           c.tool, c.started_us, c.ended_us
    FROM episodes e JOIN runs r ON r.id = e.run
        LEFT JOIN calls c ON c.id = (SELECT max(id) FROM calls l WHERE l.episode = e.id)
    WHERE e.ended_us IS NULL ORDER BY e.id
"""


class Running(NamedTuple):
    """An attempt that goes on, with its newest call. The columns of `RUNNING` are in this order."""

    id: str
    run: str
    agent: str
    model: str | None
    task: str
    attempt: int
    started_us: int
    calls: int
    tool: str | None
    """Of the newest call; None if there is none."""
    called_us: int | None
    answered_us: int | None
    """None while it waits for its result."""


class Outcome(NamedTuple):
    """What became of one attempt. The columns of `OUTCOMES` are in this order."""

    id: str
    run: str
    agent: str
    model: str | None
    task: str
    split: str
    domain: str
    ended_us: int | None
    invalid: str | None
    partial: float | None
    strict: int | None


def stored_json(text: str) -> Any:
    """Return a value that was stored as JSON. An agent's can have more than the fast parser's 200 levels."""
    try:
        return from_json(text)
    except ValueError:
        return json.loads(text)


def write_messages(connection: sqlite3.Connection, episode: str, messages: Sequence[Message]) -> None:
    connection.executemany(
        "INSERT INTO messages (episode, position, role, content, reasoning, tool_calls, tool_call_id, name,"
        " is_error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            (
                episode,
                position,
                message.role,
                message.content and jsonrpc.clean(message.content),
                message.reasoning and jsonrpc.clean(message.reasoning),
                jsonrpc.dumps([call.model_dump() for call in message.tool_calls])
                if message.tool_calls
                else None,
                message.tool_call_id and jsonrpc.clean(message.tool_call_id),
                message.name and jsonrpc.clean(message.name),
                message.is_error,
            )
            for position, message in enumerate(messages)
        ),
    )


def read_messages(connection: sqlite3.Connection, episode: str) -> list[Message]:
    rows = connection.execute(
        "SELECT role, content, reasoning, tool_calls, tool_call_id, name, is_error FROM messages"
        " WHERE episode = ? ORDER BY position",
        [episode],
    )
    # validated all at once: one model at a time takes twice as long
    return _MESSAGES.validate_python(
        [
            {
                "role": role,
                "content": content,
                "reasoning": reasoning,
                "tool_calls": stored_json(tool_calls) if tool_calls else [],
                "tool_call_id": tool_call_id,
                "name": name,
                "is_error": bool(is_error),
            }
            for role, content, reasoning, tool_calls, tool_call_id, name, is_error in rows
        ]
    )


def frame_bodies(
    connection: sqlite3.Connection, episode: str, within: tuple[int, int] | None = None
) -> Iterator[tuple[int, str, bytes]]:
    """Yield `(number, sender, bytes)` of an episode's frames. Large frames come in overlapping pieces.

    Args:
        connection: to the recordings.
        episode: its id.
        within: the numbers of its first and last frame, if they are known: see `frame_places`.
    """
    first, last = within or (_first_frame(connection, episode), _NO_END)
    is_large = f"typeof(body) = 'blob' AND length(body) >= {LARGE}"
    rows = connection.execute(
        f"SELECT id, direction, CASE WHEN {is_large} THEN NULL ELSE body END FROM frames"  # noqa: S608
        " WHERE id BETWEEN ? AND ? AND episode = ? ORDER BY id",
        [first, last, episode],
    )
    for number, sender, body in rows:
        if body is not None:
            yield number, sender, body_bytes(body)
            continue
        with connection.blobopen("frames", "body", number, readonly=True) as blob:
            for begin in range(0, len(blob), CHUNK):
                blob.seek(begin)
                yield number, sender, blob.read(CHUNK + OVERLAP)


def frame_places(connection: sqlite3.Connection) -> dict[str, tuple[int, int]]:
    """Return the numbers of the first and last frame of each episode that has frames.

    One pass over all frames is worth it before those of many episodes are read: without an end, each search
    reads all later frames, since there is no index by episode.
    """
    rows = connection.execute(
        "SELECT episode, min(id), max(id) FROM frames WHERE episode IS NOT NULL GROUP BY episode"
    )
    return {episode: (first, last) for episode, first, last in rows}


def _first_frame(connection: sqlite3.Connection, episode: str) -> int:
    """Return a lower bound of an episode's frame numbers: there is no index by episode.

    Its seal has one. Seals of earlier versions have only the number of the last frame at their time, and
    then the frames of an episode come after the seals of those that had ended before it began and whose
    seals are older than its own. Frames need not be in the order of time: episodes of several referee
    processes are stored in the order in which they end.
    """
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'seals'").fetchone():
        return 1
    own = _sealed_frames(connection, "id = ?", episode)
    if own and own[0][1] is not None:
        return 1 + own[0][1]
    before = _sealed_frames(
        connection,
        # ids are in the order of their beginnings, and have an index
        "id < ? AND ended_us < (SELECT started_us FROM episodes WHERE id = ?) - ? ORDER BY id DESC LIMIT ?",
        episode,
        episode,
        CLOCK_STEP_US,
        NEIGHBOURS,
    )
    return 1 + max((last for last, _ in before if not own or last < own[0][0]), default=0)


def _sealed_frames(
    connection: sqlite3.Connection, where: str, *parameters: object
) -> list[tuple[int, int | None]]:
    """Return the two numbers of frames in the seals of some episodes, as far as they can be read.

    They are the last one at that time, and one behind which all frames of the episode are.
    """
    sealed = connection.execute(
        f"SELECT contents FROM seals WHERE subject IN (SELECT id FROM episodes WHERE {where})",  # noqa: S608
        parameters,
    )
    found = []
    for (contents,) in sealed:
        with contextlib.suppress(ValueError, TypeError, LookupError):
            last, _, *after = from_json(contents)["frames"]
            found.append((int(last), int(after[0]) if after else None))
    return found


def listed_tools(connection: sqlite3.Connection, episode: str, after: int) -> list[ToolSchema]:
    """Return the tools in a server's answers to `tools/list`, each in its last version.

    Only frames behind the number `after` are searched: there is no index by episode.
    """
    # CROSS JOIN keeps SQLite from scanning all requests for each answer, and the + from making an index of
    # all frames for this one query. Ids are JSON text, as in `jsonrpc.same_id`
    rows = connection.execute(
        "SELECT answer.body FROM frames ask CROSS JOIN frames answer"
        " ON answer.id > ask.id AND +answer.episode = ask.episode AND +answer.connection = ask.connection"
        " AND +answer.direction = 'server' AND +answer.kind = 'response' AND (+answer.rpc_id = ask.rpc_id"
        " OR trim(answer.rpc_id, '\"') GLOB '[-0-9]*' AND trim(ask.rpc_id, '\"') GLOB '[-0-9]*'"
        " AND CAST(trim(answer.rpc_id, '\"') AS REAL) = CAST(trim(ask.rpc_id, '\"') AS REAL))"
        " WHERE ask.id > ? AND ask.episode = ? AND ask.direction = 'client' AND ask.method = 'tools/list'"
        " ORDER BY answer.id",
        [after, episode],
    )
    tools: dict[str, ToolSchema] = {}
    for (body,) in rows:
        for tool in _tools(body):
            tools[tool.function.name] = tool
    return list(tools.values())


def _tools(body: str | bytes) -> Iterator[ToolSchema]:
    # an odd answer must not lose the episode
    with contextlib.suppress(ValueError, TypeError, KeyError, AttributeError, RecursionError):
        for tool in json.loads(jsonrpc.dumps(jsonrpc.loads(body_bytes(body))))["result"]["tools"]:
            yield ToolSchema(
                function=FunctionSchema(
                    name=tool["name"],
                    description=tool.get("description") or "",
                    parameters=tool.get("inputSchema") or {},
                )
            )


def read_flags(connection: sqlite3.Connection, episode: str | None) -> list[Flag]:
    rows = connection.execute(
        "SELECT episode, time_us, kind, detail FROM flags WHERE episode IS ? ORDER BY id", [episode]
    )
    return [Flag(*row) for row in rows]


def recorded_calls(connection: sqlite3.Connection, episode: str) -> list[RecordedCall]:
    """Return the calls of an episode in the order the server ran them.

    A call that never ran, such as one with invalid arguments, keeps its place among the requests.
    """
    rows = connection.execute(
        "SELECT c.rpc_id, c.tool, c.arguments, c.outcome, c.execution, c.started_us, c.ended_us, f.body"
        " FROM calls c LEFT JOIN frames f ON f.id = c.response_frame WHERE c.episode = ? ORDER BY c.id",
        [episode],
    )
    calls = [_call(*row) for row in rows]
    ran = iter(sorted((c for c in calls if c.execution is not None), key=lambda call: call.execution or 0))
    return [call if call.execution is None else next(ran) for call in calls]


@dataclass(frozen=True, slots=True)
class ExecutedCall:
    """A call that the server ran. `result` is its MCP result object, or None if none was returned."""

    number: int
    """1, 2, ... in the order of execution."""
    tool: str
    arguments: dict[str, Any]
    result: dict[str, Any] | None


def executed_calls(connection: sqlite3.Connection, episode: str) -> Iterator[ExecutedCall]:
    """Yield the calls that the server ran, in order of execution."""
    rows = connection.execute(
        "SELECT c.execution, c.tool, c.arguments, c.rpc_id, f.body FROM calls c"
        " LEFT JOIN frames f ON f.id = c.response_frame"
        " WHERE c.episode = ? AND c.execution IS NOT NULL ORDER BY c.execution",
        [episode],
    )
    for number, tool, arguments, rpc_id, body in rows:
        result = None if body is None else jsonrpc.response_result(body_bytes(body), rpc_id)
        yield ExecutedCall(number, tool or "", json.loads(arguments), result)


def _call(
    rpc_id: str,
    tool: str | None,
    arguments: str,
    outcome: Any,
    execution: int | None,
    started_us: int,
    ended_us: int | None,
    body: str | bytes | None,
) -> RecordedCall:
    text = _NO_RESULT.get(outcome, "") if body is None else jsonrpc.response_text(body_bytes(body), rpc_id)
    images = [] if body is None or IMAGE not in text else jsonrpc.response_images(body_bytes(body), rpc_id)
    call = RecordedCall(
        tool=tool or "",
        arguments={},
        text=text,
        outcome=outcome,
        execution=execution,
        started_us=started_us,
        ended_us=ended_us,
        images=[Image(media_type=media_type, data=data) for media_type, data in images],
    )
    try:
        # arguments that are not an object are only in the frame: the server refused them
        facts = {**call.model_dump(), "arguments": json.loads(arguments), "images": call.images}
        return RecordedCall.model_validate(facts)
    except (ValidationError, RecursionError):
        return call


def run_info(row: Mapping[str, Any]) -> RunInfo:
    """Return the run of a row of the table `runs`."""
    fields = {name: row[name] for name in RunInfo.model_fields}
    return RunInfo(**fields | {name: json.loads(row[name]) for name in ("settings", "plan")})


def no_run(file: Path) -> str:
    """Return what is wrong with a database without such a row."""
    return f"{file} holds no run: its setup was cut off. Delete it with `mcp-bench delete {file.parent.name}`"
