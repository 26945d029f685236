"""Starts the long-lived referee, once, outside the process tree of whoever asks for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from mcp_bench.bridge.interactive.control import answers
from mcp_bench.bridge.interactive.paths import RefereePaths, take
from mcp_bench.servers.errors import BenchError

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
