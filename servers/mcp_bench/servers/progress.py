"""Progress of a long tool call, from a world to its client.

A world's `call` can `await report_progress(...)` any number of times. The client receives the reports as
`notifications/progress` if it asked for them (specification: basic/utilities/progress); otherwise they are
dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

Report = Callable[[float, float | None, str | None], Coroutine[Any, Any, None]]
"""Takes done, total and message, as `report_progress` does."""

_current: ContextVar[Report | None] = ContextVar("report", default=None)


async def report_progress(done: float, total: float | None = None, message: str | None = None) -> None:
    """Report the progress of the running call.

    Args:
        done: must grow from one report to the next, up to `total`.
    """
    if (report := _current.get()) is not None:
        await report(done, total, message)


def current_report() -> Report | None:
    """Return the receiver of the running call's progress, or None if there is none."""
    return _current.get()


@contextmanager
def reporting_to(report: Report | None) -> Iterator[None]:
    """Send the progress of calls inside the block to `report`."""
    before = _current.set(report)
    try:
        yield
    finally:
        _current.reset(before)
