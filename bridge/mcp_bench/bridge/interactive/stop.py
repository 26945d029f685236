"""SIGINT and SIGTERM, for commands that serve until they are told to stop."""

from __future__ import annotations

import signal

import anyio


async def stop_on_signal(scope: anyio.CancelScope) -> None:
    """Cancel `scope` at the first signal; later ones have no new meaning."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for _ in signals:
            scope.cancel()
