"""Progress of a long call, from a world to whoever waits for it.

A world's `call` may `await report_progress(...)` as often as it likes. What it says reaches the client as
`notifications/progress` where the client asked for it (specification: basic/utilities/progress), and
goes nowhere else.
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
    """Tell how far the call under way is: `done` grows from one report to the next, up to `total`."""
    if (report := _current.get()) is not None:
        await report(done, total, message)


def current_report() -> Report | None:
    """Return who wants to hear of the call under way, None where nobody does."""
    return _current.get()


@contextmanager
def reporting_to(report: Report | None) -> Iterator[None]:
    """Send what the calls inside report to `report`."""
    before = _current.set(report)
    try:
        yield
    finally:
        _current.reset(before)
