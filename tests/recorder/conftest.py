"""A run open for writing, and the commands as a user meets them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support.recorded import begin, run_info


@pytest.fixture
def folder(bench_home: Path) -> Iterator[RunFolder]:
    """A new run with one planned episode, open for writing."""
    with RunFolder.create(run_info()) as opened:
        yield opened


@pytest.fixture
def episode(folder: RunFolder) -> str:
    return begin(folder, folder.info.plan[0])


@pytest.fixture
def invoke() -> Callable[..., Result]:
    """Run a command as the root command would; an error it raised is in `.exception`."""

    def run(command: click.Command, *arguments: str | Path) -> Result:
        return CliRunner().invoke(command, [str(argument) for argument in arguments])

    return run
