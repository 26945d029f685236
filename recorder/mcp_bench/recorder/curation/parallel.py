"""The same results in the same order, from several processes.

Each process takes every n-th part of the work. What it made of a part waits in it until that is asked for, so
memory holds a few megabytes for each process, however much there is to do.
"""

from __future__ import annotations

import contextlib
import gc
import multiprocessing
import os
import pickle
import signal
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")
Work = Callable[[Sequence[Item]], Iterable[Result]]
"""Gives a result for each item, in their order."""

WAITING_BYTES = 4 << 20
"""As soon as so much waits in a process, it goes on only when some of it was taken."""


def cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0))


def in_order(
    parts: Sequence[Sequence[Item]],
    here: Work[Item, Result],
    elsewhere: Callable[[], Work[Item, Result]],
    processes: int,
) -> Generator[Result]:
    """Yield the results of all parts. Close it to end the processes early.

    `elsewhere` is pickled and called once in each new process, and what it returns must do there what `here`
    does in this one, with results that can be pickled. With one process there is no other than this one.

    What a process fails in is done here: it raises here what it raised there, and the work of a process that
    was killed is not lost.
    """
    with contextlib.ExitStack() as ending:
        count = min(processes, len(parts))
        ends = []
        if count > 1:
            ends = [ending.enter_context(_process(elsewhere, parts[n::count])) for n in range(count)]
        for number, part in enumerate(parts):
            got = 0
            taken: Iterator[Result] = _received(ends[number % count], len(part)) if ends else iter(())
            for result in taken:
                yield result
                got += 1
            if got < len(part):
                yield from here(part[got:])


def _received(end: Connection, count: int) -> Iterator[Result]:
    for _ in range(count):
        try:
            result = end.recv()
        except (EOFError, OSError):
            return
        yield result


@contextlib.contextmanager
def _process(
    elsewhere: Callable[[], Work[Item, Result]], parts: Sequence[Sequence[Item]]
) -> Iterator[Connection]:
    # numpy has threads, and a fork copies the locks that they hold
    context = multiprocessing.get_context("spawn")
    end, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(elsewhere, parts, theirs), daemon=True)
    with end:
        resource_tracker.ensure_running()  # when it starts, it lets signals through again
        with theirs, uninterrupted():
            process.start()
        try:
            yield end
        finally:
            process.terminate()  # it only reads
            process.join()


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Have what starts meanwhile not hear of Ctrl-C, which goes to all processes of a terminal: this one ends
    the others, and hears of it when the context is left.

    During a fork it would be lost: what a hook of `os.register_at_fork` raises is dropped, and logging has
    one.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _serve(
    elsewhere: Callable[[], Work[Item, Result]], parts: Iterable[Sequence[Item]], end: Connection
) -> None:
    # a closed end tells of any failure; a broken pipe, that nobody wants the rest
    with end, contextlib.suppress(Exception):
        work = elsewhere()
        gc.freeze()  # modules stay
        for part in parts:
            waiting: list[bytes] = []
            size = 0
            for result in work(part):
                waiting.append(pickle.dumps(result, pickle.HIGHEST_PROTOCOL))
                size += len(waiting[-1])
                if size >= WAITING_BYTES:
                    _send(end, waiting)
                    size = 0
            _send(end, waiting)


def _send(end: Connection, waiting: list[bytes]) -> None:
    for data in waiting:
        end.send_bytes(data)
    waiting.clear()
