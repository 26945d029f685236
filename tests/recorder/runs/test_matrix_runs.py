"""Which runs belong to a matrix."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.matrix import matrix_runs, runs_of_matrix
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


def test_a_copied_run_does_not_count_for_its_cell(bench_home: Path) -> None:
    """It can be of an earlier state: the cell would be recorded again, and its cost be another."""
    cell = {"name": "weekly", "cell": "one", "digest": "d", "values": {}}
    folder, _ = record([(planned(), Episode())], settings={"matrix": cell})
    shutil.copytree(folder.path, folder.path.with_name(f"{folder.id}_bak"))
    unreadable: list[StorageError] = []
    (run,) = matrix_runs("weekly", unreadable)
    assert (run.id, run.complete, runs_of_matrix("weekly")) == (folder.id, True, [folder.id])
    assert f"is a copy of the run {folder.id}" in str(unreadable[0])
