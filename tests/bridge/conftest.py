"""The command line on a home of its own, and agents that are written in a few lines."""

from collections.abc import Callable
from pathlib import Path

import pytest
from bench_commands import RPC, Bench


@pytest.fixture
def bench(bench_home: Path) -> Bench:
    return Bench(bench_home)


@pytest.fixture
def script(tmp_path: Path) -> Callable[[str], str]:
    """Write an agent; return the option that names it. `RPC` is there for it to use."""

    def write(source: str) -> str:
        path = tmp_path / "agent.py"
        path.write_text(RPC + source)
        return f"file={path}"

    return write
