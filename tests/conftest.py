"""Shared by all tests: every test gets a home of its own, and asynchronous ones run on asyncio."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from mcp_bench.trainer.cpu_threads import limit_spinning

# what fails in a helper should show its values, too
pytest.register_assert_rewrite("tests.support")

# shells have what they run in the background ignore Ctrl-C, and what tests start would, too
signal.signal(signal.SIGINT, signal.default_int_handler)

# on a busy machine an example may take any time, and so may its making
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# before torch is imported by anything: workers share the cores
limit_spinning()


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def bench_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Share what is derived from benchmarks alone by all tests, those of other workers included."""
    base = tmp_path_factory.getbasetemp()
    cache = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "bench-cache"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCP_BENCH_CACHE", str(cache))
        yield cache


@pytest.fixture(autouse=True)
def bench_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point MCP_BENCH_HOME, and with it everything that is stored, at the test's own folder."""
    home = tmp_path / "bench-home"
    monkeypatch.setenv("MCP_BENCH_HOME", str(home))
    return home
