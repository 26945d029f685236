"""Parametrize tests with the isolation levels that work on this machine."""

from __future__ import annotations

from typing import Any

import pytest

from mcp_bench.bridge.isolation.levels import BY_NAME
from mcp_bench.recorder.isolation_levels import SEALING
from tests.support.requirements import needs


def each_level(*more: str) -> Any:
    """Parametrize a test with every sealing level and `more`; skip those that do not work here."""
    return these_levels(*more, *SEALING)


def these_levels(*names: str, full: tuple[str, ...] = ()) -> Any:
    """Parametrize a test with some levels, those in `full` for the full sweep only; skip what does not work here."""
    return pytest.mark.parametrize("level", [_param(name, full) for name in names])


def _param(name: str, full: tuple[str, ...]) -> Any:
    support = BY_NAME[name].support()
    return pytest.param(
        name, marks=[needs(name, support.works, support.detail), *[pytest.mark.full] * (name in full)]
    )
