"""Run many checks in parallel. No check can stop, break or hide another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from mcp_bench.bridge.doctor.finding import Check, Finding, problem
from mcp_bench.servers.errors import BenchError


def run_checks(
    checks: Sequence[Check], seconds: float, report: Callable[[list[str]], None]
) -> list[list[Finding]]:
    """Return each check's findings, in the order of the checks, after at most `seconds`.

    A check that takes longer keeps the findings made so far. Its thread ends with the process, since code
    that hangs cannot be stopped.

    Args:
        report: Called with the subjects of the running checks, each time one has finished.
    """
    found: list[list[Finding]] = [[] for _ in checks]
    done: SimpleQueue[int] = SimpleQueue()
    for number, check in enumerate(checks):
        work = (check, found[number], number, done)
        threading.Thread(target=_run_check, args=work, name=check.subject, daemon=True).start()
    deadline = time.monotonic() + seconds
    waiting = set(range(len(checks)))
    while waiting:
        report([checks[number].subject for number in sorted(waiting)])
        try:
            waiting.remove(done.get(timeout=max(0.0, deadline - time.monotonic())))
        except Empty:
            break
    for number in waiting:
        late = problem("time", f"no answer within {seconds:g} s", "run it yourself, or raise --timeout")
        found[number] = [*found[number], late]  # a new list: the old one can still grow
    return found


def _run_check(check: Check, found: list[Finding], number: int, done: SimpleQueue[int]) -> None:
    try:
        found.extend(check.run())
    except BenchError as error:
        found.append(problem(check.kind, *text_and_advice(error)))
    except BaseException as error:  # third-party code, which can even call exit()
        what = {"agent": "its plugin", "benchmark": "it"}.get(check.kind, "the check")
        text = f"{what} is broken: {type(error).__name__}: {error}"
        found.append(problem(check.kind, text, "report this to its author, or remove its package"))
    finally:
        done.put(number)


def text_and_advice(error: BenchError) -> tuple[str, str]:
    """Split an error's text into what is wrong and what to do."""
    text = str(error)
    for mark in ("; ", ". "):
        what, found, advice = text.partition(mark)
        if found:
            return what, advice
    return text, "follow the error message"
