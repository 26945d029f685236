"""Published data sets are downloaded by the user's `harbor` command; a stand-in takes its place here."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.harbor import datasets
from mcp_bench.servers.home import home

pytestmark = pytest.mark.component


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The command: its arguments are `datasets download NAME -o FOLDER`."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    return tmp_path / "bin" / "harbor"


def write_program(program: Path, script: str) -> None:
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)


def left() -> list[str]:
    return sorted(path.name for path in (home() / "harbor" / "datasets").iterdir())


def test_a_data_set_is_downloaded_once(program: Path) -> None:
    write_program(program, 'echo "$3" >"$5/task"')
    folder = datasets.dataset_folder("some/set@1.0")
    assert (folder / "task").read_text() == "some/set@1.0\n"
    write_program(program, "exit 1")
    assert datasets.dataset_folder("some/set@1.0") == folder
    assert left() == ["some--set@1.0"]


def test_a_download_that_does_not_end_leaves_nothing(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_program(program, 'echo half >"$5/task"\nexec tail -f /dev/null')
    monkeypatch.setattr(datasets, "SECONDS", 0.2)
    with pytest.raises(BenchError, match="datasets download set did not end within"):
        datasets.dataset_folder("set")
    assert left() == []


def test_a_failed_download_leaves_nothing(program: Path) -> None:
    write_program(program, 'echo half >"$5/task"\necho no such set >&2\nexit 3')
    with pytest.raises(BenchError, match="datasets download set failed: no such set"):
        datasets.dataset_folder("set")
    assert left() == []


def test_two_processes_download_the_same(program: Path) -> None:
    """The first one to end wins, and the other one uses what it left."""
    whole = home() / "harbor" / "datasets" / "set"
    write_program(program, f'echo mine >"$5/task"\nmkdir {whole}\necho other >{whole}/task')
    assert (datasets.dataset_folder("set") / "task").read_text() == "other\n"
    assert left() == ["set"]
