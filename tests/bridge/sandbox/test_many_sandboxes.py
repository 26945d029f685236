"""Many sandboxes at once on one machine: each holds its own limits, and sees nothing of the others."""

from __future__ import annotations

from contextlib import AsyncExitStack

import anyio
import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.errors import SandboxEndedError
from mcp_bench.servers.sandbox import Sandbox, SandboxLimits, SandboxSpec
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.component,
    pytest.mark.full,  # 32 starts; each limit alone is tested beside
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
]
MIB = 1 << 20
MANY = 32
LIMITS = SandboxLimits(processes=40, storage=16 * MIB, memory=64 * MIB)
FORK = "import os, time\nmade = 0\ntry:\n while made < 80:\n  if os.fork() == 0: time.sleep(600)\n  made += 1\nexcept OSError: pass\nprint(made)"
TAKE = "held = bytearray(120 << 20)\nheld[::4096] = bytes(30720)\nimport time\ntime.sleep(60)"


async def test_32_sandboxes_at_once_hold_their_limits() -> None:
    places: dict[int, Sandbox] = {}
    forked: dict[int, int] = {}
    async with AsyncExitStack() as held:
        for number in range(MANY):
            places[number] = await held.enter_async_context(BWRAP.sandbox(SandboxSpec(limits=LIMITS)))
            assert places[number].enforced.sound
        assert len({one.enforced.user for one in places.values()}) in (1, MANY)

        async def used(number: int) -> None:
            one = places[number]
            await one.write("mine", str(number).encode())
            done = await one.run(f"python3 -I -c '{FORK}'", seconds=300)
            forked[number] = int(done.output)
            assert await one.read("mine") == str(number).encode()

        async def filled(number: int) -> None:
            one = places[number]
            try:
                done = await one.run(f"python3 -I -c '{TAKE}'", seconds=300)
                assert done.code != 0
            except SandboxEndedError:
                assert one.over.startswith("memory")
                return
            try:
                done = await one.run("head -c 20000000 /dev/zero >large", seconds=120)
                assert done.code != 0
            except SandboxEndedError:
                assert one.over.startswith("storage")

        async with anyio.create_task_group() as group:
            for number in places:
                group.start_soon(used, number)
        assert all(20 < made <= 40 for made in forked.values()), forked
        for one in places.values():  # and what was started behind is there
            assert not one.over
        async with anyio.create_task_group() as group:
            for number in places:
                group.start_soon(filled, number)
        for one in places.values():  # the files of each are its own
            left = {change.path for change in await one.changes() if change.kind == "file"}
            assert {"/work/mine"} <= left <= {"/work/mine", "/work/large"}
