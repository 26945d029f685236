"""Folders of runs: no two commands get the same one, and one process at a time works in each."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.folders import fresh, locked

pytestmark = pytest.mark.component


def test_commands_that_begin_in_one_second_get_folders_of_their_own(bench_home: Path) -> None:
    made = [fresh("loops", "tiny-cpu-") for _ in range(3)]
    assert len({*made}) == 3
    assert {path.parent for path in made} == {bench_home / "loops"}
    assert all(path.is_dir() and path.name.startswith("tiny-cpu-") for path in made)


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path):
        with pytest.raises(BenchError, match="another process works in"), locked(tmp_path):
            pass
        with locked(tmp_path.parent):
            pass
    with locked(tmp_path):
        pass
