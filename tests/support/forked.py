"""Run `python -m MODULE` in a fork of a process that has imported the slow packages.

A command spends one to three seconds importing the MCP SDK and the model SDKs, many times its work in a test. The fork
starts like a new interpreter: its own environment, folder, arguments, streams and `sys.path`. With
`MCP_BENCH_TEST_PROCESSES=real`, as in `make test-full`, each command is an interpreter of its own instead.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

WARM = (
    "anthropic",
    "openai",
    "mcp_bench.bridge.run.run",
    "mcp_bench.bridge.cli.root",
    "mcp_bench.clients.connection",
    "mcp_bench.recorder.export.write",
    "mcp_bench.recorder.scores.scores",
    "mcp_bench.servers.mcp_server.server",
)
REAL = os.environ.get("MCP_BENCH_TEST_PROCESSES") == "real"

_servers: dict[int, socket.socket] = {}
"""The connection to the server of a process, by its id: forks must not share it."""


def run_module(
    module: str,
    args: Sequence[str],
    *,
    env: Mapping[str, str],
    cwd: Path,
    stdin: str | None = None,
    timeout: float = 600,
) -> subprocess.CompletedProcess[str]:
    """Run a module to its end and return its exit code and output.

    Raises:
        subprocess.TimeoutExpired: it did not end within `timeout` seconds; it has been killed.
    """
    argv = [sys.executable, "-m", module, *args]
    if REAL:
        return subprocess.run(
            argv, env=env, cwd=cwd, input=stdin or "", capture_output=True, text=True, timeout=timeout
        )
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write((stdin or "").encode())
        given.seek(0)
        mine, theirs = socket.socketpair()
        with mine:
            request = {"module": module, "args": list(args), "env": dict(env), "cwd": str(cwd)}
            streams = [given.fileno(), out.fileno(), err.fileno(), theirs.fileno()]
            socket.send_fds(_server(), [json.dumps(request).encode()], streams)
            theirs.close()
            mine.settimeout(timeout)
            pid = int(mine.recv(64))
            try:
                status = int(mine.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(argv, timeout) from None
        out.seek(0)
        err.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(argv, code, _text(out.read()), _text(err.read()))


def _text(output: bytes) -> str:
    return output.decode().replace("\r\n", "\n").replace("\r", "\n")


def _server() -> socket.socket:
    if os.getpid() not in _servers:
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.forked", str(theirs.fileno())],
                cwd=Path(__file__).parents[2],
                env={"PATH": os.environ["PATH"], "OPENBLAS_NUM_THREADS": "1"},
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
            )
        _servers[os.getpid()] = mine
        atexit.register(_end, process, mine)
    return _servers[os.getpid()]


def _end(process: subprocess.Popen[bytes], requests: socket.socket) -> None:
    requests.close()
    process.wait()


def _serve(requests: socket.socket) -> None:
    """Fork for each request until the other side is closed. In a fork, run the module and return."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        data, streams, _, _ = socket.recv_fds(requests, 1 << 20, 4)
        if not data:
            os._exit(0)
        if os.fork() == 0:
            requests.close()
            return _watch(json.loads(data), streams)
        for stream in streams:
            os.close(stream)


def _watch(request: dict[str, object], streams: Sequence[int]) -> None:
    """Fork once more, for an exit status: report the process id, then the status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    pid = os.fork()
    if pid == 0:
        return _become(request, streams)
    with socket.socket(fileno=streams[3]) as report:
        report.send(str(pid).encode())
        _, status = os.waitpid(pid, 0)
        report.send(str(status).encode())
    os._exit(0)


def _become(request: dict[str, object], streams: Sequence[int]) -> None:
    for number in range(3):
        os.dup2(streams[number], number)
    os.closerange(3, max(streams) + 1)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), "utf-8", "surrogateescape")
    sys.stdout = _writer(1, "surrogateescape")
    sys.stderr = _writer(2, "backslashreplace", line_buffering=True)
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    os.environ.clear()
    os.environ.update(request["env"])  # type: ignore[call-overload]
    os.chdir(str(request["cwd"]))
    added = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:1] = [str(request["cwd"]), *added]
    importlib.invalidate_caches()
    sys.modules.pop("sitecustomize", None)
    with suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
    module = str(request["module"])
    sys.modules.pop(module, None)
    sys.argv = [module, *request["args"]]  # type: ignore[misc]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _writer(number: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    binary = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=line_buffering)


if __name__ == "__main__":
    for name in WARM:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()
    _serve(socket.socket(fileno=int(sys.argv[1])))
