"""`mcp-bench connect`: what an agent starts as its server, joined to the long-lived referee."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

from mcp_bench.bridge.interactive.control import open_socket
from mcp_bench.bridge.interactive.launch import ensure_up
from mcp_bench.bridge.interactive.paths import Place
from mcp_bench.bridge.wire.shim import CHUNK, forward_stdin, write_all
from mcp_bench.servers.errors import BenchError

PROTOCOL = 1
"""Version of what the first line each way means."""
ATTEMPTS = 3
QUIT_AFTER = 3600.0
"""Seconds without an entry after which a referee ends that nobody started by hand."""


class RefusedError(BenchError):
    """The referee does not give an entry; its own words say why."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def join(place: Place, hello: dict[str, Any]) -> socket.socket:
    """Return the connection to an entry; where no referee is up, one is started.

    Raises:
        RefusedError: unknown benchmark, task or split, or another version of mcp-bench.
        BenchError: a referee cannot be started.
    """
    line = json.dumps({"protocol": PROTOCOL, **hello}).encode() + b"\n"
    for _ in range(ATTEMPTS):
        wire = open_socket(str(place.entry_socket))
        if wire is None:
            ensure_up(place, ["--quit-after", str(QUIT_AFTER)])
        elif answer := _greet(wire, line):
            if "error" in answer:
                wire.close()
                raise RefusedError(str(answer["error"]), int(answer["exit_code"]))
            return wire
        else:  # it was about to end
            wire.close()
    raise BenchError(f"the referee ends as soon as it is there: see {place.log}")


def _greet(wire: socket.socket, line: bytes) -> dict[str, Any] | None:
    answer = b""
    try:
        wire.sendall(line)
        while not answer.endswith(b"\n"):  # nothing comes after it before we have sent more
            chunk = wire.recv(CHUNK)
            if not chunk:
                return None
            answer += chunk
    except OSError:
        return None
    found: dict[str, Any] = json.loads(answer)
    return found


def relay(wire: socket.socket) -> None:
    """Pass bytes between standard input and output and the referee until one of them ends.

    The thread that reads standard input may still wait for it afterwards: leave with `os._exit`.
    """
    threading.Thread(target=forward_stdin, args=(wire,), daemon=True).start()
    try:
        while chunk := wire.recv(CHUNK):
            write_all(1, chunk)
    except OSError:  # the agent closed our stdout, or the referee went away
        pass
