"""sqlite-utils, without what it imports only because it is there: numpy and pandas take most of a second."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def absent(*names: str) -> Iterator[None]:
    """Have modules that are not imported yet look as if they were not installed."""
    hidden = [name for name in names if name not in sys.modules]
    for name in hidden:
        sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        for name in hidden:
            del sys.modules[name]


with absent("numpy", "pandas"):
    from sqlite_utils import Database, Migrations

__all__ = ["Database", "Migrations"]
