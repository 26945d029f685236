"""The fork server of a run, as a fork of a command that has imported the clients already. See forked.py.

A run's fork server (`mcp_bench.bridge.process.fork_server`) spends a second or two importing the MCP SDK and the
model SDKs: more than the rest of a short run. A forked command has them all. It forks once more before it has
threads; this child waits, and becomes the run's first fork server. The next one in the same command is real.

Only for agents that are not confined: modules that a client imports late may lie where a confined one cannot read.
A test whose command gets `MCP_BENCH_TEST_PROCESSES=real` or a `sitecustomize` has the real one, as all attacks do.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Sequence
from functools import partial
from typing import NoReturn

from mcp_bench.bridge.process import fork_server, fork_server_process
from mcp_bench.bridge.process.fork_server_process import ForkServer, ServerProcess

RECORDING = ("check-benchmark", "record")
"""The commands that start agents by themselves."""


class Child:
    """A forked child of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> int:
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def wanted(argv: Sequence[str]) -> bool:
    """Whether this process records with agents that are not confined, and has no need of the real one."""
    if (
        os.environ.get("MCP_BENCH_ISOLATION") != "none"
        or os.environ.get("MCP_BENCH_TEST_PROCESSES") == "real"
    ):
        return False
    chosen = any(word.startswith("--isolation") for word in argv)
    return not chosen and any(command in argv for command in RECORDING)


def prepare() -> None:
    """Fork the process that becomes the fork server of this command's first run."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        ours.close()
        _become(theirs)
    theirs.close()
    ForkServer.spawn = staticmethod(partial(_spawn, ours, pid))


def _spawn(
    waiting: socket.socket, pid: int, requests: socket.socket, arguments: Sequence[str]
) -> ServerProcess:
    ForkServer.spawn = staticmethod(fork_server_process.spawn)
    with waiting:
        socket.send_fds(waiting, [json.dumps(arguments).encode()], [requests.fileno()])
    return Child(pid)


def _become(request: socket.socket) -> NoReturn:
    """Wait for the socket and the arguments of a fork server, and become it; exit if the command ends before."""
    try:
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in range(3):  # so that readers see the end of the command's output
            os.dup2(nowhere, stream)
        os.close(nowhere)
        arguments, descriptors, _, _ = socket.recv_fds(request, 1 << 16, 1)
        request.close()
        if arguments:
            os.environ.clear()
            os.environ["LANG"] = "C.UTF-8"
            sys.argv = [fork_server.__file__, str(descriptors[0]), *json.loads(arguments)]
            fork_server.main()
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)
