"""`mcp-bench view` as a process."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.support.bench_commands import Bench

pytestmark = pytest.mark.system


def test_the_viewer_ends_with_its_signal(bench_home: Path) -> None:
    process: subprocess.Popen[str] = Bench(bench_home).start("view", "--no-browser", "--port", "0")
    assert process.stdout is not None
    next(line for line in iter(process.stdout.readline, "") if "without a token" in line)
    process.terminate()
    process.communicate()
    assert process.returncode == 0
    assert not list(bench_home.glob("view-*.html"))


def test_a_home_that_cannot_be_written_does_not_stop_the_viewer(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("")  # root, too, can write nothing below a file
    with Bench(tmp_path / "home").start("view", "--no-browser", "--port", "0", warm=True) as process:
        assert process.stdout is not None and process.stderr is not None
        lines = iter(process.stdout.readline, "")
        token, file = (
            next((one for one in lines if word in one), "") for word in ("Token", "without a token")
        )
        assert f"none (cannot use {tmp_path}/home/http-token" in token, process.stderr.read()
        opener = Path(file.partition(": ")[2].strip())
        assert opener.stat().st_mode & 0o777 == 0o600
        process.terminate()
        process.communicate()
    assert (process.returncode, opener.exists()) == (0, False)
