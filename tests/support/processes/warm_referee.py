"""The referee of interactive use, as a fork of a command that has imported it already. See forked.py.

`mcp-bench up` and `connect` start the referee as an interpreter of its own, which imports for a second or two. A forked
command forks once more before it does anything; this child waits, and becomes the referee. The next one that the same
command starts is real, and so are all with `MCP_BENCH_TEST_PROCESSES=real`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from mcp_bench.bridge.interactive import control

ROOT = "mcp_bench.bridge.cli.root"
STARTING = ("connect", "up")
"""The commands that start a referee."""


def wanted(argv: Sequence[str]) -> bool:
    """Whether this process may start a referee, and has no need of a real one."""
    real = os.environ.get("MCP_BENCH_TEST_PROCESSES") == "real"
    return argv[0] == ROOT and argv[1:2] in ([one] for one in STARTING) and not real


def prepare() -> None:
    """Fork the process that becomes the first referee of this command, outside its process tree.

    This returns in the command at once, and in the other one when it is to run as the referee.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        os.setsid()
        if os.fork():
            os._exit(0)
        return _wait(theirs)
    os.waitpid(pid, 0)
    theirs.close()
    control._become = partial(_hand_over, ours, control._become)


def _hand_over(
    waiting: socket.socket,
    real: Callable[..., None],
    argv: list[str],
    environ: dict[str, str],
    log: int,
    starting: int,
) -> None:
    """Let the waiting process become the referee, in place of this one."""
    request = json.dumps({"arguments": argv[argv.index(ROOT) + 1 :], "environ": environ}).encode()
    try:
        socket.send_fds(waiting, [request], [log, starting])
    except OSError:  # it has become one before
        real(argv, environ, log, starting)


def _wait(request: socket.socket) -> None:
    """Wait until a referee is wanted, and return as it; exit if the command ends before."""
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):  # so that readers see the end of the command's output
        os.dup2(nowhere, stream)
    os.close(nowhere)
    data, descriptors, _, _ = socket.recv_fds(request, 1 << 20, 2)
    request.close()
    if not data:
        os._exit(0)
    wanted: dict[str, Any] = json.loads(data)
    log, starting = descriptors
    arguments = wanted["arguments"]
    arguments[arguments.index("--starting") + 1] = str(starting)
    sys.argv = [ROOT, *arguments]
    os.environ.clear()
    os.environ.update(wanted["environ"])
    os.chdir("/")
    os.umask(0o077)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(log)
