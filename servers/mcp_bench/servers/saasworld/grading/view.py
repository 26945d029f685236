"""A read-only view for checks: the final state of a world, or its initial state."""

from __future__ import annotations

from mcp_bench.servers.saasworld.engine.state import Change, Record, State


class View:
    """A state as it is now, or as it was at the start."""

    def __init__(self, state: State, *, start: bool = False) -> None:
        self._state = state
        self._start = start
        self.changes: list[Change] = [] if start else state.changes()
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
