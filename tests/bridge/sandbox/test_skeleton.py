"""Variables for commands over files that an agent left."""

from __future__ import annotations

import pytest

from mcp_bench.bridge.sandbox.skeleton import PATH, trusted_variables

pytestmark = pytest.mark.unit


def test_the_systems_programs_come_first() -> None:
    assert trusted_variables({})["PATH"] == PATH
    assert trusted_variables({"PATH": "/opt/venv/bin:/usr/bin:"})["PATH"] == f"{PATH}:/opt/venv/bin"


@pytest.mark.parametrize(
    ("name", "value", "stays"),
    [
        ("LD_LIBRARY_PATH", "/usr/local/cuda/lib64:/usr/lib", True),
        ("LD_LIBRARY_PATH", "/usr/lib:/opt/own/lib", False),
        ("LD_LIBRARY_PATH", "/usr/lib:", False),  # an empty part is the working folder
        ("LD_PRELOAD", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", True),
        ("LD_PRELOAD", "/usr/../root/own.so", False),
        ("LD_PRELOAD", "own.so", False),
        ("LD_AUDIT", "/root/own.so", False),
        ("BASH_ENV", "/etc/bash.bashrc", True),
        ("BASH_ENV", "/root/.bashrc", False),
        ("PYTHONPATH", "/app/src", True),  # every Python that starts before the tests ignores it
        ("GREETING", "good day", True),
    ],
)
def test_no_program_loads_what_an_agent_left(name: str, value: str, stays: bool) -> None:
    assert (name in trusted_variables({name: value})) == stays
