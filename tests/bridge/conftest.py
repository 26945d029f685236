"""Fixtures: the command line with a temporary home, and scripted agents."""

import ctypes
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcp.client import stdio

from mcp_bench.bridge.process.descendants import PR_SET_CHILD_SUBREAPER
from tests.support.bench_commands import RPC, Bench


@pytest.fixture(autouse=True)
def patient_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the SDK's client wait for a server to exit; by default it kills it after two seconds."""
    monkeypatch.setattr(stdio, "PROCESS_TERMINATION_TIMEOUT", 60.0)


@pytest.fixture(autouse=True)
def no_subreaper() -> Iterator[None]:
    """Stop being a subreaper, so that other tests' orphans are not adopted."""
    yield
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


@pytest.fixture
def bench(bench_home: Path) -> Bench:
    return Bench(bench_home)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write an agent; return the option that names it. The agent can use `RPC`."""

    def write(source: str) -> str:
        path = tmp_path / "agent.py"
        path.write_text(RPC + source)
        return f"file={path}"

    return write
