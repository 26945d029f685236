"""Makes the checks in a process of their own, so that whatever they start can be ended for sure."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Collection, Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from mcp_bench.bridge.doctor.examination import examine
from mcp_bench.bridge.doctor.finding import Check, Finding
from mcp_bench.bridge.doctor.progress import Progress
from mcp_bench.bridge.supervisor import become_subreaper, end_descendants
from mcp_bench.servers.errors import BenchError


def examine_apart(checks: Sequence[Check], seconds: float) -> list[list[Finding]]:
    """Do as `examine` does, with a line of progress. Nothing that a check started is left, no thread either.

    Raises:
        BenchError: a plugin took the process down with it.
    """
    context = multiprocessing.get_context("fork")  # checks are functions, and no thread runs yet
    ours, theirs = context.Pipe(duplex=False)
    become_subreaper()
    # what is raised by Ctrl-C during a fork is lost: hooks that run then (logging has one) may not fail
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    process = context.Process(target=_examine, args=(checks, seconds, theirs, before), daemon=False)
    try:
        process.start()
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        with Progress() as progress:
            while True:
                kind, told = ours.recv()
                if kind == "found":
                    found: list[list[Finding]] = told
                    return found
                progress.show(told)
    except EOFError:
        process.join()
        raise BenchError(
            f"a check took the doctor down (exit code {process.exitcode}): the code of a plugin crashed. "
            "Name agents one by one to find whose"
        ) from None
    finally:
        if process.is_alive():
            process.kill()
            process.join()
        end_descendants()  # with the process gone nothing new is started, and orphans come here


def _examine(
    checks: Sequence[Check], seconds: float, connection: Connection, before: Collection[int]
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent, which ends this process
    signal.pthread_sigmask(signal.SIG_SETMASK, before)
    with suppress(BrokenPipeError):
        found = examine(checks, seconds, lambda waiting: connection.send(("waiting", waiting)))
        connection.send(("found", found))
