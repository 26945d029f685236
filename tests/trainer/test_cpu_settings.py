"""Settings for work on a CPU."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.component

HUGE = Path("/sys/kernel/mm/transparent_hugepage/enabled")
FAULTS = """
import resource
from mcp_bench.trainer.cpu_settings import prepare_cpu
prepare_cpu()
import torch
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
torch.ones(64 << 20, dtype=torch.uint8)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(wanted: str | None) -> int:
    """Return how often a process asks the system for a page of a tensor with 64 MiB."""
    inherited = {name: value for name, value in os.environ.items() if name != "THP_MEM_ALLOC_ENABLE"}
    more = {} if wanted is None else {"THP_MEM_ALLOC_ENABLE": wanted}
    argv = [sys.executable, "-c", FAULTS]
    return int(subprocess.run(argv, check=True, capture_output=True, env={**inherited, **more}).stdout)


@pytest.mark.skipif(
    not HUGE.is_file() or not re.search(r"\[madvise\]", HUGE.read_text()),
    reason="the system has no huge pages on request",
)
def test_large_tensors_have_large_pages_unless_the_environment_says_otherwise() -> None:
    assert page_faults(None) < 8_000 < page_faults("0")
