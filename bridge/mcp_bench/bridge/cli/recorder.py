"""Record runs one after another in one process, each of them as `mcp-bench record` does.

Learning from reward records a few dozen short episodes at a time. Importing the packages, and again in the
fork server of the clients, would take as long as the episodes. Here that is done once.

Run as `python -m mcp_bench.bridge.cli.recorder`, with a socket as its stdin. Each line on it is an order: a
command with its arguments, the environment to run in, and a file that gets its messages. The answer is a line
with the exit code and what was printed. Ctrl-C stops a run as ever. The end of the socket ends the process.
"""

from __future__ import annotations

import io
import json
import os
import socket
import traceback
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from mcp_bench.bridge.cli.root import run_command
from mcp_bench.bridge.process.fork_server_process import ForkServer


def main() -> None:
    """Obey the orders."""
    orders = socket.socket(fileno=os.dup(0))
    with Path(os.devnull).open() as nothing:
        os.dup2(nothing.fileno(), 0)  # for the processes that inherit it
    ForkServer.kept = ForkServer()
    for line in orders.makefile("rb"):
        orders.sendall(json.dumps(obey(json.loads(line))).encode() + b"\n")


def obey(order: dict[str, Any]) -> dict[str, Any]:
    """Record a run, and return the exit code and what the command printed."""
    os.environ.clear()
    os.environ.update(order["env"])
    printed = io.StringIO()
    code: Any = 0
    with Path(order["log"]).open("a", encoding="utf-8", buffering=1) as log:
        try:
            with redirect_stdout(printed), redirect_stderr(log):
                run_command(order["arguments"])
        except SystemExit as end:
            code = end.code
        except Exception:
            traceback.print_exc(file=log)  # it ends the process, whose own messages go to the first run's log
            raise
    return {"code": code, "printed": printed.getvalue()}


if __name__ == "__main__":
    main()
