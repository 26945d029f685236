"""A read-only view for checks: the final state of a world, or its initial state; and what differs."""

from __future__ import annotations

from typing import Any

from mcp_bench.servers.saasworld.engine.state import Change, Record, State


class View:
    """A state as it is now, or as it was at the start."""

    def __init__(self, state: State, *, start: bool = False) -> None:
        self._state = state
        self._start = start
        self.changes: list[Change] = [] if start else [c for c in state.changes() if not _undone(c)]
        self._before = (
            {(change.collection, change.id): change.before for change in state.changes()} if start else {}
        )

    def get(self, collection: str, record_id: str) -> Record | None:
        if (collection, record_id) in self._before:
            return self._before[collection, record_id]
        return self._state.find(collection, record_id)

    def records(self, collection: str) -> list[Record]:
        now = [row for row in self._state.rows(collection) if (collection, row["id"]) not in self._before]
        return now + [
            row for (name, _), row in self._before.items() if name == collection and row is not None
        ]

    def created(self, collection: str) -> list[Record]:
        return [
            change.after
            for change in self.changes
            if change.collection == collection and change.before is None and change.after is not None
        ]


def blank(value: Any) -> bool:
    """Return whether a field is not set or empty, which is the same for the grade."""
    return value is None or value in ("", [], {})


def differing(before: Record, after: Record) -> set[str]:
    """Return the names of the fields that differ; for objects the keys that differ, as `values.Status`."""
    found: set[str] = set()
    for name in before.keys() | after.keys():
        old, new = before.get(name), after.get(name)
        if _alike(old, new):
            continue
        a, b = old or {}, new or {}  # a missing object counts as one without keys
        if isinstance(a, dict) and isinstance(b, dict):
            keys = a.keys() | b.keys()
            found |= {f"{name}.{key}" for key in keys if not _alike(a.get(key), b.get(key))}
        else:
            found.add(name)
    return found


def _alike(old: Any, new: Any) -> bool:
    return bool(old == new) or (blank(old) and blank(new))


def _undone(change: Change) -> bool:
    """Return whether a record was changed back, though its labels, say, are empty now and were not set."""
    before, after = change.before, change.after
    return before is not None and after is not None and not differing(before, after)
