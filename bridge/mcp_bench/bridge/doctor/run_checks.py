"""Makes many checks at the same time. None can stop, break or hide another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

from mcp_bench.bridge.doctor.finding import Check, Finding, problem
from mcp_bench.servers.errors import BenchError


def examine(
    checks: Sequence[Check], seconds: float, tell: Callable[[list[str]], None]
) -> list[list[Finding]]:
    """Return each check's findings, in the order of the checks; after so many seconds, what there is by then.

    `tell` is given the subjects that are still being looked at, whenever there is one less.

    Threads that hang are left to end with the process: the code in them cannot be made to stop.
    """
    found: list[list[Finding]] = [[] for _ in checks]
    done: SimpleQueue[int] = SimpleQueue()
    for number, check in enumerate(checks):
        work = (check, found[number], number, done)
        threading.Thread(target=_make, args=work, name=check.subject, daemon=True).start()
    deadline = time.monotonic() + seconds
    waiting = set(range(len(checks)))
    while waiting:
        tell([checks[number].subject for number in sorted(waiting)])
        try:
            waiting.remove(done.get(timeout=max(0.0, deadline - time.monotonic())))
        except Empty:
            break
    for number in waiting:
        late = problem("time", f"no answer within {seconds:g} s", "look at it by hand, or raise --timeout")
        found[number] = [*found[number], late]  # a new list: the old one may still grow
    return found


def _make(check: Check, found: list[Finding], number: int, done: SimpleQueue[int]) -> None:
    try:
        found.extend(check.run())
    except BenchError as error:
        found.append(problem(check.kind, *said(error)))
    except BaseException as error:  # somebody else's code, which may even call exit()
        what = {"agent": "its plugin", "benchmark": "it"}.get(check.kind, "the check")
        text = f"{what} is broken: {type(error).__name__}: {error}"
        found.append(problem(check.kind, text, "tell who made it, or remove its package"))
    finally:
        done.put(number)


def said(error: BenchError) -> tuple[str, str]:
    """Return an error's text in two: what is wrong, and what to do."""
    text = str(error)
    for mark in ("; ", ". "):
        what, found, advice = text.partition(mark)
        if found:
            return what, advice
    return text, "do what the error says"
