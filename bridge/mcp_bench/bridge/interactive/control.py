"""The long-lived referee as other processes see it: start it, ask it, join it as a client.

Standard library only: an agent waits for `mcp-bench connect`.
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
"""What a referee gets of the environment: the agent that starts it may have keys in its own."""


def ensure_up(paths: RefereePaths, options: Sequence[str], token: str | None = None) -> bool:
    """Start a referee with options of `mcp-bench up`, unless one is up; return whether it was started.

    `token` is for HTTP, and travels in the environment, where other users cannot see it.

    Several processes may do this at once: one of them starts it, the others wait for it.

    Raises:
        BenchError: it does not start; the text has the last lines of its log.
    """
    paths.prepare()
    starting = _take_starting(paths)
    try:
        if answers(paths):
            return False
        _launch(paths, options, token, starting)
    finally:
        os.close(starting)
    os.close(_take_starting(paths))  # the new one holds it until it listens, or is gone
    if not answers(paths):
        raise BenchError(f"the referee does not start. The end of {paths.log}:\n{_last_lines(paths)}")
    return True


def _take_starting(paths: RefereePaths) -> int:
    starting = take(paths.starting, START_SECONDS)
    if starting is None:
        raise BenchError(
            f"a referee is being started, but does not listen after {START_SECONDS:.0f} seconds: "
            f"see {paths.log}"
        )
    return starting


def _launch(paths: RefereePaths, options: Sequence[str], token: str | None, starting: int) -> None:
    """Run `mcp-bench up --foreground` as a daemon: a session of its own, and no parent of ours."""
    command = [sys.executable, "-P", "-m", "mcp_bench.bridge.cli.root", "up", "--foreground"]
    argv = [*command, "--starting", str(starting), *options]
    log = os.open(paths.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    if os.fstat(log).st_size > LOG_BYTES:
        os.ftruncate(log, 0)
    child = os.fork()
    if child == 0:
        with suppress(BaseException):  # whatever goes wrong, this copy of us must not go on
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
    for link in Path("/proc/self/fd").iterdir():  # not all there could be: agents raise that limit
        if (descriptor := int(link.name)) > 2:
            with suppress(OSError):
                os.set_inheritable(descriptor, descriptor == starting)
    os.execve(argv[0], argv, environ)  # noqa: S606 - no shell is what we want


def environment(paths: RefereePaths, token: str | None) -> dict[str, str]:
    """Return the referee's whole environment."""
    passed_on = {
        name: value
        for name, value in os.environ.items()
        if name in PASSED_ON or name.startswith(PASSED_ON_PREFIXES)
    }
    passed_on["MCP_BENCH_HOME"] = str(paths.home)
    return passed_on if token is None else {**passed_on, "MCP_BENCH_TOKEN": token}


def _last_lines(paths: RefereePaths) -> str:
    try:
        return "\n".join(paths.log.read_text(errors="replace").splitlines()[-LAST_LINES:])
    except OSError:
        return ""


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
