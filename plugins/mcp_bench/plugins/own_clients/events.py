"""Read the events that our own clients print on stdout; `mcp_bench.clients.events` documents them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mcp_bench.plugins.contracts import Fault, Transcript
from mcp_bench.plugins.text_files import json_lines
from mcp_bench.recorder.trajectory import Message, Usage


def read_transcript(stdout: Path) -> Transcript:
    """Return a client's transcript. Lines that are not events are skipped: it may have been killed.

    A failed model endpoint and a wrong command line are faults, and so is an end in the middle of retries. A
    lost MCP server is not: the recording shows what happened on the wire.
    """
    transcript = Transcript()
    retrying = ""
    for event in json_lines(stdout):
        if event.get("type") != "retry":
            retrying = ""
        match event:
            case {"type": "retry", "detail": str(detail)}:
                retrying = retrying or detail
            case {"type": "message", "message": dict(message)}:
                _add(transcript, message)
            case {"type": "usage", "usage": dict(usage)}:
                transcript.usage = _usage(usage) or transcript.usage
            case {"type": "final", "answer": str(answer)}:
                transcript.answer = answer
            case {"type": "error", "kind": "endpoint", "detail": str(detail)}:
                transcript.fault = Fault(kind="endpoint_error", detail=detail)
            case {"type": "error", "kind": "login", "detail": str(detail)}:
                transcript.fault = Fault(kind="login_missing", detail=detail)
            case {"type": "error", "kind": "usage", "detail": str(detail)}:
                transcript.fault = Fault(kind="bad_option", detail=detail)
    if retrying:
        transcript.fault = Fault(kind="endpoint_error", detail=f"ended while it tried again: {retrying}")
    return transcript


def _add(transcript: Transcript, value: dict[str, Any]) -> None:
    try:
        message = Message.model_validate(value)
    except ValidationError:
        return
    transcript.messages.append(message)
    transcript.answer = message.content if message.role == "assistant" and not message.tool_calls else None


def _usage(value: dict[str, Any]) -> Usage | None:
    try:
        return Usage.model_validate(value)
    except ValidationError:
        return None
