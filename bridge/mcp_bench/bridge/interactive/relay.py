"""`mcp-bench connect`: what an agent starts as its server, joined to the long-lived referee."""

from __future__ import annotations

import json
import socket
import threading
from typing import Any

from mcp_bench.bridge.interactive.control import open_socket
from mcp_bench.bridge.interactive.launch import ensure_up
from mcp_bench.bridge.interactive.paths import RefereePaths
from mcp_bench.bridge.wire.shim import CHUNK, forward_stdin, write_all
from mcp_bench.servers.errors import BenchError

PROTOCOL = 1
"""Version of what the first line each way means."""
ATTEMPTS = 3
QUIT_AFTER = 3600.0
"""Seconds without a client after which a referee ends that nobody started by hand."""


class RefusedError(BenchError):
    """The referee does not take the client; its own words say why."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def join(paths: RefereePaths, hello: dict[str, Any]) -> socket.socket:
    """Return the connection to the referee; where no referee is up, one is started.

    Raises:
        RefusedError: unknown benchmark, task or split, or another version of mcp-bench.
        BenchError: a referee cannot be started.
    """
    line = json.dumps({"protocol": PROTOCOL, **hello}).encode() + b"\n"
    for _ in range(ATTEMPTS):
        stream = open_socket(str(paths.client_socket))
        if stream is None:
            ensure_up(paths, ["--quit-after", str(QUIT_AFTER)])
        elif answer := _greet(stream, line):
            if "error" in answer:
                stream.close()
                raise RefusedError(str(answer["error"]), int(answer["exit_code"]))
            return stream
        else:  # it was about to end
            stream.close()
    raise BenchError(f"the referee ends as soon as it is there: see {paths.log}")


def _greet(stream: socket.socket, line: bytes) -> dict[str, Any] | None:
    answer = b""
    try:
        stream.sendall(line)
        while not answer.endswith(b"\n"):  # nothing comes after it before we have sent more
            chunk = stream.recv(CHUNK)
            if not chunk:
                return None
            answer += chunk
    except OSError:
        return None
    found: dict[str, Any] = json.loads(answer)
    return found


def relay(stream: socket.socket) -> None:
    """Pass bytes between standard input and output and the referee until one of them ends.

    The thread that reads standard input may still wait for it afterwards: leave with `os._exit`.
    """
    threading.Thread(target=forward_stdin, args=(stream,), daemon=True).start()
    try:
        while chunk := stream.recv(CHUNK):
            write_all(1, chunk)
    except OSError:  # the agent closed our stdout, or the referee went away
        pass
