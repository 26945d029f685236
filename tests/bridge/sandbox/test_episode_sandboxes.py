"""The sandboxes of an episode: a cancelled start leaves none, and a lent machine is given back last."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import anyio
import pytest

from mcp_bench.bridge.sandbox.runners import episode_sandboxes
from mcp_bench.servers.sandbox import SandboxSpec

pytestmark = [pytest.mark.anyio, pytest.mark.component]


async def test_a_cancelled_start_leaves_no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list[str]()
    begun = anyio.Event()

    class Slow:
        @asynccontextmanager
        async def sandbox(self, spec: SandboxSpec) -> AsyncIterator[None]:
            try:
                begun.set()
                await anyio.sleep_forever()
                yield
            finally:
                steps.append("removed")

    monkeypatch.setattr(episode_sandboxes, "configured", lambda: ())
    monkeypatch.setattr(episode_sandboxes, "choose", lambda *names: Slow())
    held = episode_sandboxes.EpisodeSandboxes()
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(held.start, SandboxSpec())
            await begun.wait()
            tasks.cancel_scope.cancel()
        await held.aclose()
    assert steps == ["removed"]


async def test_a_slot_is_given_back_when_the_files_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = list[str]()

    class Removed:
        enforced = None

        @asynccontextmanager
        async def sandbox(self, spec: SandboxSpec) -> AsyncIterator[Removed]:
            yield self
            for _ in range(10):
                await anyio.sleep(0)
            steps.append("removed")

    @asynccontextmanager
    async def leased(*_: object) -> AsyncIterator[SimpleNamespace]:
        yield SimpleNamespace(engine=Removed())
        steps.append("given back")

    monkeypatch.setattr(episode_sandboxes, "configured", lambda: ("a runner",))
    monkeypatch.setattr(episode_sandboxes, "leased", leased)
    held = episode_sandboxes.EpisodeSandboxes()
    for _ in range(2):
        await held.start(SandboxSpec())
    await held.aclose()
    assert steps == ["removed", "removed", "given back"]
