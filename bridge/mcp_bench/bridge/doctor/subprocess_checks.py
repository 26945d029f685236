"""Makes the checks in a process of their own, so that whatever they start can be ended for sure."""

from __future__ import annotations

import multiprocessing
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from mcp_bench.bridge.doctor.finding import Check, Finding
from mcp_bench.bridge.doctor.progress import Progress
from mcp_bench.bridge.doctor.run_checks import examine
from mcp_bench.bridge.process.supervisor import become_subreaper, end_descendants
from mcp_bench.recorder.curation.parallel import uninterrupted
from mcp_bench.servers.errors import BenchError


def examine_apart(checks: Sequence[Check], seconds: float) -> list[list[Finding]]:
    """Do as `examine` does, with a line of progress. Nothing that a check started is left, no thread either.

    Raises:
        BenchError: a plugin took the process down with it.
    """
    context = multiprocessing.get_context("fork")  # checks are functions, and no thread runs yet
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_examine, args=(checks, seconds, theirs), daemon=False)
    become_subreaper()
    try:
        with uninterrupted():
            process.start()
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


def _examine(checks: Sequence[Check], seconds: float, connection: Connection) -> None:
    with suppress(BrokenPipeError):
        found = examine(checks, seconds, lambda waiting: connection.send(("waiting", waiting)))
        connection.send(("found", found))
