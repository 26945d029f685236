"""The events of our clients on stdout: one JSON object per line, flushed at once.

    {"type": "message", "message": {...}}        OpenAI-style; `arguments` of tool calls are objects
    {"type": "usage", "usage": {...}}            totals so far: the last one counts
    {"type": "retry", "detail": TEXT}            a request to the model failed, and may be sent again
    {"type": "error", "kind": KIND, "detail": TEXT}
    {"type": "final", "answer": TEXT}            the last line; with "stopped" if a limit ended it

Kind `endpoint` means that the model endpoint failed, `login` that it refused the key, `mcp` that the MCP
server failed, `usage` that the command line was wrong, and `context` that the conversation is too long for
the model.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal

ErrorKind = Literal["endpoint", "login", "mcp", "usage", "context"]
MAX_DETAIL = 1000
sink: ContextVar[Callable[[str], object] | None] = ContextVar("sink", default=None)
"""Takes the lines in place of stdout, for a client that is a part of another process."""


class ClientError(Exception):
    """The client cannot continue. `run` turns it into an error event and an exit code."""

    def __init__(self, kind: ErrorKind, detail: str) -> None:
        super().__init__(detail)
        self.kind: ErrorKind = kind
        self.detail = detail


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yield an error, or the errors inside a task group's exception group."""
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from leaves(inner)
    else:
        yield error


@dataclass(frozen=True)
class CalledTool:
    """A tool call with the server's name for the tool."""

    id: str
    name: str
    arguments: Mapping[str, Any]


def say_assistant(text: str | None, reasoning: str | None = None, calls: Sequence[CalledTool] = ()) -> None:
    """Report a turn of the assistant; `text` is None if it only called tools."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if reasoning:
        message["reasoning"] = reasoning
    if calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in calls
        ]
    _write({"type": "message", "message": message})


def say_result(call: CalledTool, text: str, *, is_error: bool) -> None:
    message = {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": text}
    _write({"type": "message", "message": {**message, "is_error": is_error}})


def say_usage(usage: Mapping[str, int | None]) -> None:
    _write({"type": "usage", "usage": dict(usage)})


def say_retry(detail: str) -> None:
    _write({"type": "retry", "detail": detail})


def say_error(kind: ErrorKind, detail: str) -> None:
    _write({"type": "error", "kind": kind, "detail": detail[:MAX_DETAIL]})


def say_final(answer: str, stopped: str | None = None) -> None:
    event = {"type": "final", "answer": answer}
    _write({**event, "stopped": stopped} if stopped else event)


def _write(event: Mapping[str, Any]) -> None:
    line = json.dumps(event) + "\n"  # ASCII only: safe in any locale, always one line
    if (take := sink.get()) is not None:
        take(line)
        return
    sys.stdout.write(line)
    sys.stdout.flush()
