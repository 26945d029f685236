"""Servers for the conformance suite, each in a separate process."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import ROOT
from tests.support.conformance.conformance_suite import Start
from tests.support.processes.forked import module_command


@pytest.fixture
def start(tmp_path: Path, bench_home: Path) -> Iterator[Start]:
    """Return a function that starts a module and returns the URL that it prints."""
    processes: list[subprocess.Popen[str]] = []
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "MCP_BENCH_HOME": str(bench_home),
    }

    def run(program: str, *args: str | Path) -> str:
        command = module_command(program, *map(str, args))
        process = subprocess.Popen(command, env=environ, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        processes.append(process)
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        assert url.startswith("http://"), f"{program} did not start"
        return url

    yield run
    for process in reversed(processes):
        process.terminate()
        process.communicate(timeout=30)
