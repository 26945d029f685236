"""Shared by all tests: every test gets a home of its own, and asynchronous ones run on asyncio."""

import gc
import os
import signal
import socket
import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import NoReturn

import pytest
from hypothesis import HealthCheck, settings

from mcp_bench.trainer.cpu_threads import limit_spinning

# what fails in a helper should show its values, too
pytest.register_assert_rewrite("tests.support")

# shells have what they run in the background ignore Ctrl-C, and what tests start would, too
signal.signal(signal.SIGINT, signal.default_int_handler)

# on a busy machine an example may take any time, and so may its making
settings.register_profile(
    "busy", deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=50
)
settings.register_profile("full", settings.get_profile("busy"), max_examples=200)
settings.load_profile("full" if os.environ.get("MCP_BENCH_TEST_PROCESSES") == "real" else "busy")

# before torch is imported by anything: workers share the cores
limit_spinning()


LEVELS = ("unit", "component", "contract", "system")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for garbage after the collection, and never again at the millions of objects that it leaves.

    What is imported and collected is no garbage: looking for some takes a sixth of the time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_auto_num_workers() -> int:
    """Return three workers for two cores: tests often wait, for a process or for the end of a limit."""
    cores = len(os.sched_getaffinity(0))
    return cores + cores // 2


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Refuse a test file without exactly one level."""
    for item in items:
        if len([level for level in LEVELS if item.get_closest_marker(level)]) != 1:
            raise pytest.UsageError(
                f"{item.path}: set one level, such as `pytestmark = pytest.mark.unit`: {LEVELS}"
            )


@pytest.fixture(autouse=True)
def unit_tests_stay_pure(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse processes and sockets in a unit test: they would make `make unit` slow."""
    if request.node.get_closest_marker("unit") is None:
        return

    def refuse(*_: object, **__: object) -> NoReturn:
        raise AssertionError("a unit test starts no process and opens no connection: set another level")

    for owner, name in ((subprocess.Popen, "__init__"), (socket.socket, "bind"), (socket.socket, "connect")):
        monkeypatch.setattr(owner, name, refuse)
    monkeypatch.setattr(os, "fork", refuse)


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
