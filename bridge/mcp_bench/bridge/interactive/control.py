"""Asks the long-lived referee about itself, or tells it to end. An entry cannot: it lacks the secret."""

from __future__ import annotations

import json
import socket
from typing import Any, Literal

from mcp_bench.bridge.interactive.paths import Place, is_held
from mcp_bench.servers.errors import BenchError

Command = Literal["status", "stay", "down"]
ANSWER_SECONDS = 30.0
ENDING = "a referee is ending, or does not answer"


class NotUpError(BenchError):
    """No referee answers."""


def open_socket(path: str, seconds: float | None = None) -> socket.socket | None:
    """Connect to a Unix socket; None where nobody listens."""
    wire = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    wire.settimeout(seconds)
    try:
        wire.connect(path)
    except (FileNotFoundError, ConnectionRefusedError):
        wire.close()
        return None
    return wire


def answers(place: Place) -> bool:
    """Whether a referee listens."""
    control = open_socket(str(place.control_socket), ANSWER_SECONDS)
    entry = open_socket(str(place.entry_socket), ANSWER_SECONDS)
    for wire in (control, entry):
        if wire is not None:
            wire.close()
    return control is not None and entry is not None


def ask(place: Place, command: Command) -> dict[str, Any]:
    """Send a command and return the answer.

    Raises:
        NotUpError: nobody is there to answer it.
        BenchError: it was refused.
    """
    try:
        secret = place.secret.read_text()
        wire = open_socket(str(place.control_socket), ANSWER_SECONDS)
        if wire is None:
            raise FileNotFoundError
        with wire, wire.makefile("rwb") as lines:
            lines.write(json.dumps({"secret": secret, "command": command}).encode() + b"\n")
            lines.flush()
            answer: dict[str, Any] = json.loads(lines.readline())
    except (OSError, ValueError) as error:
        raise NotUpError(ENDING if is_held(place.lock) else "no referee is up") from error
    if "error" in answer:
        raise BenchError(answer["error"])
    return answer
