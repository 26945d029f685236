"""A benchmark's own Python needs pydantic and anyio for its worker, and nothing else of ours."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from mcp_bench.servers.mcp_server.world_session import WorldSession
from mcp_bench.servers.needs import missing
from mcp_bench.servers.remote import RemoteBenchmark
from tests.support import NOTEBOOK
from tests.support.machines.plain_install import make_worker_environment
from tests.support.notebook import BENCHMARK

pytestmark = [pytest.mark.anyio, pytest.mark.component]


async def test_a_worker_needs_two_packages(tmp_path: Path) -> None:
    python = make_worker_environment(tmp_path / "venv")
    absent = [str(python), "-s", "-P", "-c", "import mcp_types"]
    assert b"ModuleNotFoundError" in subprocess.run(absent, capture_output=True).stderr
    remote = RemoteBenchmark("notebook", f"{NOTEBOOK}:BENCHMARK", version="1", python=str(python))
    try:
        task = next(iter(remote.tasks()))
        solution = remote.reference(task.id)
        assert solution == BENCHMARK.reference(task.id) is not None
        world = await remote.open(task.id)
        session = WorldSession(world)
        for call in solution.calls:
            result = await world.call(call.name, call.arguments)
            assert not result.is_error
        grade = await world.grade(solution.answer)
        assert grade.strict
        assert await world.snapshot() is not None
        assert {tool.name for tool in session.tools} == {tool.name for tool in world.tools()}
        await world.close()
    finally:
        await remote.aclose()


def test_a_little_less_memory_is_not_rounded_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of 16 GB has a little less than 16 GiB."""
    pages = {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": int(15.97 * (1 << 30)) // 4096}
    monkeypatch.setattr(os, "sysconf", pages.__getitem__)
    assert missing("memory:16") == "it needs 16 GiB of memory; this machine has 15.9"
    assert missing("memory:15") is None
