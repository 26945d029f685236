"""A home with a short path, since the referee's sockets are in it, and the engines of sandboxes."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.engine import VARIABLE
from tests.support.bench_commands import Bench
from tests.support.machines.sandbox_engines import engine


@pytest.fixture
def bench_home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    user = Path(tempfile.mkdtemp(prefix="mcp-attack-"))
    monkeypatch.setenv("MCP_BENCH_HOME", str(user / "home"))
    yield user / "home"
    shutil.rmtree(user)


@pytest.fixture
def bench(bench_home: Path) -> Bench:
    # what is attacked is the real one
    return Bench(bench_home, {"MCP_BENCH_TEST_PROCESSES": "real"})


@pytest.fixture(
    params=[
        "bwrap",
        pytest.param("podman", marks=pytest.mark.full),
        pytest.param("docker", marks=pytest.mark.full),
    ]
)
def on_engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the worlds work on an engine. Each takes the same path from there on."""
    monkeypatch.setenv(VARIABLE, engine(request.param).name)
