"""Asks the long-lived referee about itself, or tells it to end. A client cannot: it lacks the secret."""

from __future__ import annotations

import json
import socket
from typing import Any, Literal

from mcp_bench.bridge.interactive.paths import RefereePaths, is_held
from mcp_bench.servers.errors import BenchError

Command = Literal["status", "stay", "down"]
ANSWER_SECONDS = 30.0
ENDING = "a referee is ending, or does not answer"


class NotUpError(BenchError):
    """No referee answers."""


def open_socket(path: str, seconds: float | None = None) -> socket.socket | None:
    """Connect to a Unix socket; None where nobody listens."""
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(seconds)
    try:
        stream.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        stream.close()
        return None
    return stream


def answers(paths: RefereePaths) -> bool:
    """Whether a referee listens."""
    control = open_socket(str(paths.control_socket), ANSWER_SECONDS)
    client = open_socket(str(paths.client_socket), ANSWER_SECONDS)
    for stream in (control, client):
        if stream is not None:
            stream.close()
    return control is not None and client is not None


def ask(paths: RefereePaths, command: Command) -> dict[str, Any]:
    """Send a command and return the answer.

    Raises:
        NotUpError: nobody is there to answer it.
        BenchError: it was refused.
    """
    try:
        secret = paths.secret.read_text()
        stream = open_socket(str(paths.control_socket), ANSWER_SECONDS)
        if stream is None:
            raise FileNotFoundError
        with stream, stream.makefile("rwb") as lines:
            lines.write(json.dumps({"secret": secret, "command": command}).encode() + b"\n")
            lines.flush()
            answer: dict[str, Any] = json.loads(lines.readline())
    except (OSError, ValueError) as error:
        raise NotUpError(ENDING if is_held(paths.lock) else "no referee is up") from error
    if "error" in answer:
        raise BenchError(answer["error"])
    return answer
