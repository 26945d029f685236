"""Check rows that are read: SQLite stores any value in any column, and a database can be from elsewhere.

Figures are computed with these values, and files are named by ids.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Collection, Iterable
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

END_US = 253_402_300_800_000_000
"""The year 10000, in microseconds since the epoch: no later time can be shown."""
ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


class RowCheck:
    """Checks rows whose columns are the fields of a record, in their order; fields behind them do not count.

    A field of `int` or `bool` is an integer in the row, `float` a number, and everything else text.
    """

    def __init__(self, record: type, *, or_none: Collection[str] = ()) -> None:
        """Take the fields of a class. Those in `or_none` can be NULL, although their hint does not say so."""
        hints = get_type_hints(record)
        self._names = list(hints)
        self._kinds = [_kinds(hints[name]) | ({NoneType} if name in or_none else set()) for name in hints]
        self._times = [place for place, name in enumerate(self._names) if name.endswith("_us")]
        self._right: set[tuple[type, ...]] = set()
        """Types of whole rows that were checked: there are few."""

    def __call__(self, row: sqlite3.Row) -> sqlite3.Row:
        """Return a row, whose first column is an id.

        Raises:
            TypeError, ValueError: a value cannot have been stored by the recorder.
        """
        types = tuple(map(type, row))
        if types not in self._right:
            for name, found, kinds in zip(self._names, types, self._kinds, strict=False):
                if found not in kinds:
                    raise TypeError(f"{name} is {found.__name__}")
            self._right.add(types)
        check_ids((row[0],))
        for place in self._times:
            if row[place] is not None and not 0 <= row[place] < END_US:
                raise ValueError(f"{self._names[place]} is no time")
        return row


def check_ids(ids: Iterable[Any]) -> None:
    """Check ids of runs or episodes: they become names of files, and parts of addresses.

    Raises:
        ValueError: one is none.
    """
    for one in ids:
        if not (isinstance(one, str) and ID.fullmatch(one)):
            raise ValueError(f"{one!r:.80} is no id")


_NUMBERS: dict[Any, set[type]] = {float: {int, float}, int: {int}, bool: {int}, NoneType: {NoneType}}


def _kinds(hint: Any) -> set[type]:
    """Return the types that a value of a field can have in a row."""
    parts = get_args(hint) if isinstance(hint, UnionType) else (hint,)
    return {kind for part in parts for kind in _NUMBERS.get(part, {str})}
