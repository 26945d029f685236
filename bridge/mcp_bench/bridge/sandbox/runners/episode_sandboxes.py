"""The sandboxes that the worlds of one episode got. They end with the episode."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AbstractAsyncContextManager
from typing import TypeVar

import anyio

from mcp_bench.bridge.sandbox.engine import Engine, choose
from mcp_bench.bridge.sandbox.runners.configured import Runner, configured, leased
from mcp_bench.bridge.sandbox.runners.remote import RunnerLostError
from mcp_bench.servers.sandbox import Enforced, Sandbox, SandboxSpec

_log = logging.getLogger(__name__)
T = TypeVar("T")


class EpisodeSandboxes:
    """Starts sandboxes. A task of its own holds each, so that a world can ask from any task."""

    def __init__(self, engine: str = "") -> None:
        self.enforced: list[Enforced] = []
        """What the started ones enforce."""
        self._named = engine
        self._engine: Engine | None = None
        self._first = anyio.Lock()
        self._sandboxes, self._slots = Held(), Held()

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """Start a sandbox. All of an episode are on one machine.

        Raises:
            SandboxError: no engine and no runner works, or it could not be started.
        """
        async with self._first:
            if self._engine is None:
                runners = await anyio.to_thread.run_sync(configured)
                if runners:
                    sandbox = await self._on_a_runner(runners, spec)
                    self.enforced.append(sandbox.enforced)
                    return sandbox
        engine = self._engine
        if engine is None:
            engine = await anyio.to_thread.run_sync(choose, self._named, spec.base)
        sandbox = await self._sandboxes.hold(engine.sandbox(spec))
        self.enforced.append(sandbox.enforced)
        return sandbox

    async def _on_a_runner(self, runners: tuple[Runner, ...], spec: SandboxSpec) -> Sandbox:
        """Start the first sandbox, and with it choose the machine: the next one, if one is gone."""
        lost = dict[str, str]()
        while True:
            try:
                slot = await self._slots.hold(leased(runners, lost))
                sandbox = await self._sandboxes.hold(slot.engine.sandbox(spec))
            except RunnerLostError as error:  # it is left out now, and its slot is free
                _log.warning("%s", error)
                lost[error.machine] = error.why
                with anyio.CancelScope(shield=True):
                    await self._slots.end()
                self._slots = Held()
                continue
            self._engine = slot.engine
            return sandbox

    async def aclose(self) -> None:
        """End all sandboxes. A slot is another episode's only when their files are gone."""
        with anyio.CancelScope(shield=True):
            await self._sandboxes.end()
            await self._slots.end()


class Held:
    """Contexts that are left together. A task of its own holds each."""

    def __init__(self) -> None:
        self._tasks: list[asyncio.Task[None]] = []
        self._over = asyncio.Event()

    async def hold(self, context: AbstractAsyncContextManager[T]) -> T:
        """Enter a context in a task of its own, which leaves it when the episode ends."""
        started: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        async def hold() -> None:
            try:
                async with context as value:
                    if not started.done():
                        started.set_result(value)
                        await self._over.wait()
            except Exception as error:
                if started.done():
                    _log.exception("a sandbox could not be ended cleanly")
                else:
                    started.set_exception(error)

        task = asyncio.create_task(hold())
        self._tasks.append(task)
        try:
            return await started
        except BaseException:  # nobody gets what it would start
            task.cancel()
            raise

    async def end(self) -> None:
        """Leave all contexts."""
        self._over.set()
        await asyncio.gather(*self._tasks, return_exceptions=True)
