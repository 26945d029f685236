"""Run checks in a subprocess, so that everything they start can be ended reliably."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import Connection

from mcp_bench.bridge.doctor.finding import Check, Finding
from mcp_bench.bridge.doctor.progress import Progress
from mcp_bench.bridge.doctor.run_checks import run_checks
from mcp_bench.bridge.process.descendants import become_subreaper, end_descendants
from mcp_bench.bridge.process.ends_on_sigterm import ends_on_sigterm
from mcp_bench.recorder.curation.parallel import uninterrupted
from mcp_bench.servers.errors import BenchError


def run_checks_in_subprocess(checks: Sequence[Check], seconds: float) -> list[list[Finding]]:
    """Do the same as `run_checks`, and show progress. On return, no process or thread of a check is left.

    Raises:
        BenchError: a plugin crashed the process.
    """
    context = multiprocessing.get_context("fork")  # checks are functions, and no thread runs yet
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(checks, seconds, theirs), daemon=False)
    become_subreaper()
    with ends_on_sigterm():
        try:
            with uninterrupted():
                process.start()
            theirs.close()
            with Progress() as progress:
                while True:
                    kind, message = ours.recv()
                    if kind == "found":
                        found: list[list[Finding]] = message
                        return found
                    progress.show(message)
        except EOFError:
            process.join()
            raise BenchError(
                f"a plugin's code crashed the doctor (exit code {process.exitcode}). Name agents one by one "
                "to find which"
            ) from None
        finally:
            if process.is_alive():
                process.kill()
                process.join()
            end_descendants()  # without the process nothing new starts, and orphans become our children


def _run(checks: Sequence[Check], seconds: float, connection: Connection) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(BrokenPipeError):
        found = run_checks(checks, seconds, lambda waiting: connection.send(("waiting", waiting)))
        connection.send(("found", found))
