"""Building tasks from packages: what is in the way is said in one line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.left_folders import lock
from mcp_bench.servers.swe.cli import swe_tasks

pytestmark = pytest.mark.component


def built(out: Path) -> BaseException | None:
    return CliRunner().invoke(swe_tasks, ["--out", str(out), "--python", "no-such-python"]).exception


def test_two_processes_do_not_build_in_one_folder(tmp_path: Path) -> None:
    """Each would remove the repositories that the other one is making."""
    held = lock(tmp_path)
    error = built(tmp_path)
    os.close(held)
    assert isinstance(error, BenchError)
    assert str(error) == f"another process builds tasks in {tmp_path}: wait until it ends"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("below", ["file", "file/out"])
def test_a_folder_that_cannot_be_made_is_named(below: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    error = built(tmp_path / below)
    assert isinstance(error, BenchError) and str(error).startswith(f"cannot write {tmp_path / 'file'}")


def test_the_next_process_can_build(tmp_path: Path) -> None:
    for _ in range(2):
        assert str(built(tmp_path)).startswith("no-such-python cannot be started")
