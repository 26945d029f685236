"""Access to the long-lived referee from other processes: start it, query it, connect to it as a client.

This module imports no third-party package, because the agent waits while `mcp-bench connect` starts.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from mcp_bench.bridge.interactive.paths import RefereePaths, is_held, take
from mcp_bench.bridge.wire.shim import CHUNK, forward_stdin, write_all
from mcp_bench.servers.errors import BenchError, WrongUseError

Command = Literal["status", "stay", "down"]
ANSWER_SECONDS = 30.0
ENDING = "the referee is ending, or does not answer"


class NotUpError(BenchError):
    """No referee answers on the control socket."""


def open_socket(path: str, seconds: float | None = None) -> socket.socket | None:
    """Connect to a Unix socket. Return None if no process listens on it.

    Raises:
        BenchError: it cannot be reached, such as one of another user.
    """
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(seconds)
    try:
        stream.connect(path)
    except OSError as error:
        stream.close()
        if isinstance(error, FileNotFoundError | ConnectionRefusedError):
            return None
        raise BenchError(f"cannot connect to the referee at {path}: {error.strerror or error}") from error
    return stream


def answers(paths: RefereePaths) -> bool:
    """Return whether a referee listens on both of its sockets."""
    control = open_socket(str(paths.control_socket), ANSWER_SECONDS)
    client = open_socket(str(paths.client_socket), ANSWER_SECONDS)
    for stream in (control, client):
        if stream is not None:
            stream.close()
    return control is not None and client is not None


def ask(paths: RefereePaths, command: Command) -> dict[str, Any]:
    """Send a command and return the answer.

    Raises:
        NotUpError: no referee answers.
        BenchError: the referee refuses the command.
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
    except (BenchError, OSError, ValueError) as error:
        raise NotUpError(ENDING if is_held(paths.lock) else "no referee is up") from error
    if "error" in answer:
        raise BenchError(answer["error"])
    return answer


START_SECONDS = 60.0
LOG_BYTES = 1 << 20
LAST_LINES = 5

PASSED_ON = (
    "HOME",
    "LANG",
    "LC_ALL",
    "PATH",
    "PYTHONPATH",
    "TMPDIR",
    "TZ",
    "XDG_CACHE_HOME",
    "XDG_DATA_HOME",
)
PASSED_ON_PREFIXES = ("MCP_BENCH_", "OTEL_")
"""Variables that a referee inherits. The rest may hold keys of the agent that starts it."""


def ensure_up(paths: RefereePaths, options: Sequence[str], token: str | None = None) -> bool:
    """Start a referee unless one is up. Return whether this call started it.

    Several processes may call this at once: one of them starts the referee, the others wait for it.

    Args:
        options: Options for `mcp-bench up`.
        token: Bearer token for HTTP. It is passed in the environment, where other users cannot see it.

    Raises:
        BenchError: the referee does not start. The message includes the last lines of its log.
    """
    paths.prepare()
    starting = _take_starting(paths)
    try:
        if answers(paths):
            return False
        _launch(paths, options, token, starting)
    finally:
        os.close(starting)
    os.close(_take_starting(paths))  # the new referee holds this lock until it listens or exits
    if not answers(paths):
        raise BenchError(f"the referee does not start. The last lines of {paths.log}:\n{_last_lines(paths)}")
    return True


def _take_starting(paths: RefereePaths) -> int:
    starting = take(paths.starting, START_SECONDS)
    if starting is None:
        raise BenchError(
            f"a referee was started, but does not listen after {START_SECONDS:.0f} seconds. "
            f"Its log is {paths.log}"
        )
    return starting


def _launch(paths: RefereePaths, options: Sequence[str], token: str | None, starting: int) -> None:
    """Run `mcp-bench up --foreground` as a daemon, in a new session and outside our process tree."""
    command = [sys.executable, "-P", "-m", "mcp_bench.bridge.cli.root", "up", "--foreground"]
    argv = [*command, "--starting", str(starting), *options]
    log = os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(log).st_size > LOG_BYTES:
        os.ftruncate(log, 0)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):  # after any failure, the forked copy must not continue
            os.setsid()
            if os.fork() == 0:
                _become(argv, environment(paths, token), log, starting)
        os._exit(0)
    os.close(log)
    os.waitpid(child, 0)


def _become(argv: list[str], environ: dict[str, str], log: int, starting: int) -> None:
    os.chdir("/")
    os.umask(0o077)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, standard in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, standard)
    for link in Path("/proc/self/fd").iterdir():  # only open ones: agents raise the limit of descriptors
        if (descriptor := int(link.name)) > 2:
            with suppress(OSError):
                os.set_inheritable(descriptor, descriptor == starting)
    os.execve(argv[0], argv, environ)  # noqa: S606 - no shell needed


def environment(paths: RefereePaths, token: str | None) -> dict[str, str]:
    """Return the environment of a new referee."""
    passed_on = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    passed_on["MCP_BENCH_HOME"] = str(paths.home)
    passed_on["MCP_BENCH_CONFIG"] = "none"  # its options are on its command line, with the file's defaults
    return passed_on if token is None else {**passed_on, "MCP_BENCH_TOKEN": token}


def _last_lines(paths: RefereePaths) -> str:
    try:
        return "\n".join(paths.log.read_text(errors="replace").splitlines()[-LAST_LINES:])
    except OSError:
        return ""


PROTOCOL = 2
"""Version of the first line in each direction."""
HELLO_BYTES = 1 << 20
"""Longest first line of a client, without its secret."""
ATTEMPTS = 3
QUIT_AFTER = 3600.0
"""Seconds without a client after which an automatically started referee ends."""


class RefusedError(BenchError):
    """The referee refuses the client. The message is the referee's own."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def join(paths: RefereePaths, hello: dict[str, Any]) -> socket.socket:
    """Connect to the referee as a client. Start a referee if none is up.

    Raises:
        RefusedError: unknown benchmark, task or split, or another version of mcp-bench.
        WrongUseError: too many tasks are named.
        BenchError: a referee cannot be started or reached.
    """
    paths.refuse_long()
    if (size := len(json.dumps(hello))) > HELLO_BYTES:
        raise WrongUseError(
            f"the names of the tasks take {size:,} bytes, and the referee reads at most {HELLO_BYTES:,}: "
            "name fewer, or take `mcp-bench serve`, which needs no referee"
        )
    for _ in range(ATTEMPTS):
        stream = open_socket(str(paths.client_socket))
        if stream is None:
            ensure_up(paths, ["--quit-after", str(QUIT_AFTER)])
        elif answer := _greet(stream, {"protocol": PROTOCOL, "secret": _secret(paths), **hello}):
            if "error" in answer:
                stream.close()
                raise RefusedError(str(answer["error"]), int(answer["exit_code"]))
            return stream
        else:  # the referee was about to end
            stream.close()
    raise BenchError(f"the referee ends right after its start. Its log is {paths.log}")


def _secret(paths: RefereePaths) -> str:
    """Return the referee's secret. Its sockets exist only while the file does, unless it is just ending."""
    try:
        return paths.secret.read_text()
    except FileNotFoundError:
        return ""


def _greet(stream: socket.socket, hello: dict[str, Any]) -> dict[str, Any] | None:
    answer = b""
    try:
        stream.sendall(json.dumps(hello).encode() + b"\n")
        while not answer.endswith(b"\n"):  # the referee sends nothing more until we do
            chunk = stream.recv(CHUNK)
            if not chunk:
                return None
            answer += chunk
    except OSError:
        return None
    found: dict[str, Any] = json.loads(answer)
    return found


def relay(stream: socket.socket) -> None:
    """Forward bytes between standard input and output and the referee until one side ends.

    Afterwards a thread may still block on standard input, so the process must exit with `os._exit`.
    """
    threading.Thread(target=forward_stdin, args=(stream,), daemon=True).start()
    try:
        while chunk := stream.recv(CHUNK):
            write_all(1, chunk)
    except OSError:  # the agent closed our stdout, or the referee is gone
        pass
