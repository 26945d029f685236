"""Shared by all tests: every test gets a home of its own, and asynchronous ones run on asyncio."""

from pathlib import Path

import pytest


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True)
def bench_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point MCP_BENCH_HOME, and with it everything that is stored, at the test's own folder."""
    home = tmp_path / "bench-home"
    monkeypatch.setenv("MCP_BENCH_HOME", str(home))
    return home
