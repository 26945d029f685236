"""A run to copy, and another home to copy it to."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support.recorded import Episode, planned, record


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A closed run of some pieces."""
    for module in ("place", "copies"):
        monkeypatch.setattr(f"mcp_bench.recorder.storage.{module}.PIECE_BYTES", 4096)
    folder, _ = record([(planned("user_task_0"), Episode()), (planned("user_task_1"), Episode(partial=0.5))])
    folder.log_path("ep_1", "stdout").write_text("said")
    return folder


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Make another home the one in use."""

    def use() -> Path:
        monkeypatch.setenv("MCP_BENCH_HOME", str(tmp_path / "mirror"))
        return tmp_path / "mirror"

    return use
