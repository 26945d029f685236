"""Parameters of a test of which only some run every time; the others are for the full sweep."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def sampled(values: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """Return `values` as parameters, those that are not in `kept` marked `full`."""
    return [value if value in kept else pytest.param(value, marks=pytest.mark.full) for value in values]
