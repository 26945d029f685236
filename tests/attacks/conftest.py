"""A home with a short path, since the referee's sockets are in it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.bench_commands import Bench


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
