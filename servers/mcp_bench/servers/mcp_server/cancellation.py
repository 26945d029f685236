"""Distinguish the cancellation of a task from an error with the same class."""

from __future__ import annotations

import asyncio

import anyio


def is_cancellation(error: BaseException) -> bool:
    """Return whether somebody cancels the running task, so that the error must be raised again.

    A world that awaits a cancelled task of its own raises the same class: that is its own failure.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is None or task.cancelling() > 0
    return isinstance(error, anyio.get_cancelled_exc_class())  # another event loop's


def is_own_failure(error: BaseException) -> bool:
    """Return whether a benchmark's own code failed, so that others go on: it raised an error, or exited."""
    lost = isinstance(error, asyncio.CancelledError) and not is_cancellation(error)
    return lost or isinstance(error, Exception | SystemExit)
