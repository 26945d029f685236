"""Parametrise a test so that only some values run every time, and all of them in the full suite."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """Return `values` as parameters. Those not in `kept` are marked `full`."""
    return [value if value in kept else pytest.param(value, marks=pytest.mark.full) for value in values]
