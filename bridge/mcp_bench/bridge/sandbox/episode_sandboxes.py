"""The sandboxes that the worlds of one episode got. They end with the episode."""

from __future__ import annotations

import asyncio
import logging

import anyio

from mcp_bench.bridge.sandbox.engine import choose
from mcp_bench.servers.sandbox import Enforced, Sandbox, SandboxSpec

_log = logging.getLogger(__name__)


class EpisodeSandboxes:
    """Starts sandboxes. A task of its own holds each, so that a world can ask from any task."""

    def __init__(self, engine: str = "") -> None:
        self.enforced: list[Enforced] = []
        """What the started ones enforce."""
        self._engine = engine
        self._held: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Start a sandbox.

        Raises:
            SandboxError: no engine works here, or it could not be started.
        """
        engine = await anyio.to_thread.run_sync(choose, self._engine, spec.base)
        started: asyncio.Future[Sandbox] = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            try:
                async with engine.sandbox(spec) as sandbox:
                    if not started.done():
                        started.set_result(sandbox)
                        await self._over.wait()
            except Exception as error:
                if started.done():
                    _log.exception("a sandbox could not be ended cleanly")
                else:
                    started.set_exception(error)

        self._held.append(asyncio.create_task(hold()))
        sandbox = await started
        self.enforced.append(sandbox.enforced)
        return sandbox

    async def aclose(self) -> None:
        """End all sandboxes."""
        self._over.set()
        with anyio.CancelScope(shield=True):
            await asyncio.gather(*self._held, return_exceptions=True)
