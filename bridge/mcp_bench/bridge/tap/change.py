"""Wait until something changes."""

from __future__ import annotations

import anyio


class Change:
    """Wakes everybody who waits. Each change has an event of its own, so a waiter gets the next one only."""

    def __init__(self) -> None:
        self._next = anyio.Event()

    def announce(self) -> None:
        self._next.set()
        self._next = anyio.Event()

    async def wait(self) -> None:
        """Return at the next change."""
        await self._next.wait()
