"""Run `python -m MODULE`, or a script, in a fork of a process that has imported the slow packages.

A command spends one to three seconds importing the MCP SDK and the model SDKs, many times its work in a test. The fork
starts like a new interpreter: its own environment, folder, arguments, streams and `sys.path`. With
`MCP_BENCH_TEST_PROCESSES=real`, as in `make test-full`, each command is an interpreter of its own instead.

`run_module` runs a module to its end. `script_command` and `module_command` return a command line that anybody can
start, such as an agent that starts a server. It waits for the fork, passes SIGTERM and SIGINT on, and ends as the fork
ends; killing it ends the fork, a moment later. The fork has the streams, the environment and the folder of the
command, but not its process id, session, terminal and limits. After its exit handlers it does not free its objects.
The fork server of a run is a fork, too, where agents are not confined: see `warm_fork_server`. So is the referee of
interactive use: see `warm_referee`.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import io
import json
import os
import runpy
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from mcp_bench.plugins.own_clients.environment import packages
from mcp_bench.servers.entry_points import entry_points
from mcp_bench.servers.saasworld.authoring.family import all_families
from tests.support.processes import fork_launcher, warm_fork_server, warm_referee

WARM = (
    "anthropic",
    "openai",
    "mcp_bench.bridge.run.run",
    "mcp_bench.bridge.cli.record",
    "mcp_bench.bridge.cli.record_matrix",
    "mcp_bench.bridge.cli.root",
    "mcp_bench.bridge.interactive.run",
    "mcp_bench.bridge.run.choices",
    "mcp_bench.bridge.run.preflight",
    "mcp_bench.bridge.run.setup",
    "mcp_bench.clients.acp.__main__",
    "mcp_bench.clients.chat.__main__",
    "mcp_bench.clients.chat.anthropic_messages",
    "mcp_bench.clients.chat.openai_chat",
    "mcp_bench.clients.connection",
    "mcp_bench.clients.noop",
    "mcp_bench.clients.oracle",
    "mcp_bench.clients.random_walk",
    "mcp_bench.plugins.own_clients.noop",
    "mcp_bench.plugins.own_clients.oracle",
    "mcp_bench.recorder.cli.export",
    "mcp_bench.recorder.cli.report",
    "mcp_bench.recorder.cli.show",
    "mcp_bench.recorder.cli.verify",
    "mcp_bench.recorder.export.write",
    "mcp_bench.recorder.scores.scores",
    "mcp_bench.servers.mcp_server.server",
    "mcp_bench.servers.saasworld.toolsets",
)
REAL = os.environ.get("MCP_BENCH_TEST_PROCESSES") == "real"

_servers: dict[int, str] = {}
"""The server's socket, by the process that uses it. Each server ends with the process that started it."""


def script_command(script: Path, *args: str) -> tuple[str, ...]:
    """Return a command that runs a Python script as `python SCRIPT ARGS` does, in a fork of the warm process."""
    if REAL:
        return (sys.executable, str(script), *args)
    return (sys.executable, "-I", "-S", fork_launcher.__file__, _server(), str(script), *args)


def module_command(module: str, *args: str) -> tuple[str, ...]:
    """Return a command that runs a module as `python -m MODULE ARGS` does, in a fork of the warm process."""
    if REAL:
        return (sys.executable, "-m", module, *args)
    return (sys.executable, "-I", "-S", fork_launcher.__file__, _server(), module, *args)


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
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.connect(_server())
            request = {"run": module, "args": list(args), "env": dict(env), "cwd": str(cwd)}
            fork_launcher.send(connection, request, (given.fileno(), out.fileno(), err.fileno()))
            connection.settimeout(timeout)
            pid = int(connection.recv(64))
            try:
                status = int(connection.recv(64))
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(argv, timeout) from None
        out.seek(0)
        err.seek(0)
        code = os.waitstatus_to_exitcode(status)
        return subprocess.CompletedProcess(argv, code, _text(out.read()), _text(err.read()))


def _text(output: bytes) -> str:
    return output.decode().replace("\r\n", "\n").replace("\r", "\n")


def _server() -> str:
    """Return the path of the server's socket; start the server on first use."""
    if os.getpid() not in _servers:
        folder = tempfile.mkdtemp(prefix="warm-")
        path = f"{folder}/socket"
        ours, theirs = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.processes.forked", path, str(ours)],
            cwd=Path(__file__).parents[3],
            env={"PATH": os.environ["PATH"], "OPENBLAS_NUM_THREADS": "1"},
            pass_fds=[ours],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
        os.close(ours)
        assert process.stdout is not None
        process.stdout.readline()  # it listens
        _servers[os.getpid()] = path
        atexit.register(_end, process, theirs, folder)
    return _servers[os.getpid()]


def _end(process: subprocess.Popen[bytes], lifeline: int, folder: str) -> None:
    os.close(lifeline)
    process.wait()
    shutil.rmtree(folder)


def _serve(listener: socket.socket, lifeline: int) -> None:
    """Fork for each connection until the process that started this one ends. In a fork, run the request and return."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        ready, _, _ = select.select([listener, lifeline], [], [])
        if lifeline in ready:
            os._exit(0)
        connection, _ = listener.accept()
        with connection:
            if os.fork() == 0:
                listener.close()
                os.close(lifeline)
                return _watch(connection)


def _watch(connection: socket.socket) -> None:
    """Fork once more, for an exit status: report the process id, then the status."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    data, streams, _, _ = socket.recv_fds(connection, 1 << 20, 3)
    pid = os.fork()
    if pid == 0:
        connection.close()
        return _become(json.loads(data), streams)
    for stream in streams:
        os.close(stream)
    ended = os.pidfd_open(pid)
    with suppress(OSError):
        connection.send(str(pid).encode())
        if connection in select.select([connection, ended], [], [])[0]:  # the other side has ended
            os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    with suppress(OSError):
        connection.send(str(status).encode())
    os._exit(0)


def _become(request: dict[str, object], streams: Sequence[int]) -> None:
    for number in range(3):
        os.dup2(streams[number], number)
    for stream in streams:
        os.close(stream)
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
    patched = False
    with suppress(ModuleNotFoundError):
        importlib.import_module("sitecustomize")
        patched = True
    run = str(request["run"])
    sys.argv = [run, *request["args"]]  # type: ignore[misc]
    if not patched and warm_fork_server.wanted(sys.argv):
        warm_fork_server.prepare()
    if not patched and warm_referee.wanted(sys.argv):
        warm_referee.prepare()
    try:
        if run.endswith(".py"):
            sys.path[0] = str(Path(run).parent)
            runpy.run_path(run, run_name="__main__")
        else:
            sys.modules.pop(run, None)
            runpy.run_module(run, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            _codes.append(end.code or 0)
        raise
    _codes.append(0)


_codes: list[int] = []
"""The exit code of this process, when it has ended well enough to have one."""


def _end_at_once() -> None:
    """End a forked process after its other exit handlers.

    Python would next free every object of the warm process, which takes ten times as long as a short command.
    """
    if _codes:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_codes[-1] & 0xFF)


def _writer(number: int, errors: str, *, line_buffering: bool = False) -> io.TextIOWrapper:
    binary = io.BufferedWriter(io.FileIO(number, "w", closefd=False))
    return io.TextIOWrapper(binary, "utf-8", errors, line_buffering=line_buffering)


if __name__ == "__main__":
    atexit.register(_end_at_once)  # the last one to run, because it is the first here
    gc.disable()  # next to nothing of what is imported is garbage
    for name in WARM:
        importlib.import_module(name)
    all_families()  # each is a module that a task imports
    entry_points("")  # what is installed stays installed
    packages()
    gc.collect()
    gc.freeze()
    gc.enable()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(sys.argv[1])
        listener.listen(64)
        print("listening", flush=True)
        _serve(listener, int(sys.argv[2]))
