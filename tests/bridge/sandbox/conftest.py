"""A sandbox of each engine, with small limits."""

from __future__ import annotations

from collections.abc import AsyncIterator

import anyio
import pytest

from mcp_bench.servers.sandbox import Sandbox, SandboxSpec
from tests.support.machines.sandbox_engines import NAMES, SMALL, engine


@pytest.fixture(params=NAMES)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    with anyio.fail_after(300):
        async with engine(request.param).sandbox(SandboxSpec(limits=SMALL)) as started:
            yield started
