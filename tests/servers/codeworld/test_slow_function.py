"""The family `slow-function`: the large input is out of reach for the given function, and not for the solution."""

import re
import sys
from random import Random
from types import ModuleType

import pytest

from mcp_bench.servers.codeworld.families.slow_function import FAST_WINDOW, SECONDS, make

pytestmark = pytest.mark.unit
ADDITIONS = 10**9
"""Of numbers of Python a second: many times what a processor does."""


def test_the_given_window_is_too_slow_on_any_machine() -> None:
    large = make(Random(1), 1).checks[0]
    [(size, width)] = re.findall(r"(\d+)\D+(\d+)\D+$", (large.files or {})["run.py"])
    windows = int(size) - int(width) + 1
    assert large.processor_seconds == SECONDS
    assert windows * int(width) > 2 * SECONDS * ADDITIONS


def test_the_window_of_the_solution_is_right(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = ModuleType("window")
    exec(FAST_WINDOW, vars(module))
    monkeypatch.setitem(sys.modules, "window", module)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for check in make(Random(1), 1).checks:
        exec((check.files or {})["run.py"], {})
        assert not check.fault(capsys.readouterr().out)
