"""What some tests need of the machine, and whether its absence may skip them."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest

REQUIRED = frozenset(filter(None, os.environ.get("MCP_BENCH_REQUIRE", "").split(",")))
"""Requirements that must be met: `bwrap`, `landlock`, `npm`, `root`, ... CI names all that it installs."""


def needs(name: str, met: bool, reason: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test where a requirement is not met, and fails it where that is required."""
    return pytest.mark.skipif(not met and name not in REQUIRED, reason=f"{name}: {reason}")


def skip(name: str, reason: str) -> NoReturn:
    """Skip the running test for want of a requirement, or fail it where that is required."""
    if name in REQUIRED:
        pytest.fail(f"MCP_BENCH_REQUIRE names {name}: {reason}")
    pytest.skip(f"{name}: {reason}")
