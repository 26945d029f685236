"""A run that is open for writing."""

from collections.abc import Iterator

import pytest

from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support.recorded import planned, run_info

TASKS = [f"user_task_{number}" for number in range(3)]


@pytest.fixture
def run() -> Iterator[RunFolder]:
    with RunFolder.create(run_info(*map(planned, TASKS))) as folder:
        yield folder
