"""A sandbox of each engine, with small limits, and a task of swe."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from mcp_bench.servers.sandbox import Sandbox, SandboxSpec
from tests.support.machines.sandbox_engines import NAMES, SMALL, engine
from tests.support.machines.swe_task import make_layer, make_task


@pytest.fixture(params=NAMES)
async def sandbox(request: pytest.FixtureRequest) -> AsyncIterator[Sandbox]:
    with anyio.fail_after(300):
        async with engine(request.param).sandbox(SandboxSpec(limits=SMALL)) as started:
            yield started


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer with this environment's pytest."""
    return make_layer(tmp_path_factory.mktemp("layer"))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: Path) -> Path:
    """A tasks' folder with one task of swe."""
    make_task(tmp_path, layer)
    monkeypatch.setenv("MCP_BENCH_SWE", str(tmp_path))
    return tmp_path
