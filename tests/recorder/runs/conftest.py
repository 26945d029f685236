"""A run that is open for writing."""

from collections.abc import Iterator

import pytest

from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support.recorded import THREE_TASKS, run_info


@pytest.fixture
def run() -> Iterator[RunFolder]:
    with RunFolder.create(run_info(*THREE_TASKS)) as folder:
        yield folder
