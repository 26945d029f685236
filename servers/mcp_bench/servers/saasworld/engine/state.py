"""The data of one simulated company: tables of records, their changes, a clock and new ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from zlib import crc32

from mcp_bench.servers.saasworld.engine.api_error import ApiError, echo

Record = dict[str, Any]
"""One row: JSON values by field name, including `id`. Fields without a value are left out.

Records are never changed in place: a new dict replaces the old one. Copies of a state, undo and before-images
therefore cost nothing.
"""

Tables = dict[str, dict[str, Record]]
"""`{"crm.contacts": {"con_1f2e3d": record}}`."""

SECONDS_PER_CALL = 5
"""Time that each call takes on the world's clock, refused calls included."""

DRAWN_PLACES = 1 << 23
"""The places of ids that initial records draw from. Later records count on behind them: no id comes twice."""


class Change(NamedTuple):
    """The change of one record since the start. None means that the record does not exist."""

    collection: str
    id: str
    before: Record | None
    after: Record | None


class State:
    """Tables with a change journal.

    The state depends only on the constructor's arguments and the calls made since: it uses no wall clock and
    no randomness.
    """

    def __init__(
        self,
        tables: Mapping[str, Mapping[str, Record]],
        *,
        now: int,
        seed: int,
        settings: Mapping[str, Any],
        counters: Mapping[str, int] | None = None,
    ) -> None:
        """Copy the tables one level deep.

        Args:
            now: seconds since the epoch, UTC.
            seed: determines the ids.
            settings: the user (`me`), and limits such as `read_only`; see `executor`.
            counters: per prefix, the ids assigned since the start, and the highest number.
        """
        self.tables: Tables = {name: dict(table) for name, table in tables.items()}
        self.now = now
        self.settings = settings
        self.seed = seed
        self.counters: dict[str, int] = dict(counters or {})
        self.recent_calls: dict[str, list[int]] = {}
        """Times of the last minute's calls by app, for rate limits."""
        self._journal: dict[tuple[str, str], Record | None] = {}

    def rows(self, collection: str) -> Iterable[Record]:
        return self.tables.get(collection, {}).values()

    def find(self, collection: str, record_id: str) -> Record | None:
        return self.tables.get(collection, {}).get(record_id)

    def need(self, collection: str, record_id: str, field: str = "id") -> Record:
        """Return a record.

        Raises:
            ApiError: there is no record with that id: `not_found`, or `validation_error` if `field` is not
                `id`.
        """
        record = self.find(collection, record_id)
        if record is None:
            what = collection.partition(".")[2].replace("_", " ")
            raise ApiError(
                "not_found" if field == "id" else "validation_error",
                f"No record with id {echo(record_id)} in {what}.",
                field,
            )
        return record

    def put(self, collection: str, record: Record) -> Record:
        """Insert or replace a record by its id."""
        table = self.tables.setdefault(collection, {})
        self._journal.setdefault((collection, record["id"]), table.get(record["id"]))
        table[record["id"]] = record
        return record

    def update(self, collection: str, record: Record, **values: Any) -> Record:
        """Replace some fields of a record, without checks."""
        return self.put(collection, {**record, **values})

    def remove(self, collection: str, record_id: str) -> None:
        removed = self.tables[collection].pop(record_id)
        self._journal.setdefault((collection, record_id), removed)

    def new_id(self, prefix: str) -> str:
        """Return the next id for a prefix, such as `con_5e0c91`: unique, in no visible order."""
        count = self.counters[prefix] = self.counters.get(prefix, 0) + 1
        return self.id_at(prefix, DRAWN_PLACES + count)

    def id_at(self, prefix: str, place: int) -> str:
        """Return the id at a place below 2**24. Different places have different ids."""
        value = (
            place * 0x9E3779 + (self.seed ^ crc32(prefix.encode()))
        ) & 0xFFFFFF  # odd factors and shifts: one to one on 24 bits
        value = ((value ^ (value >> 11)) * 0x85EBCB) & 0xFFFFFF
        return f"{prefix}_{value ^ (value >> 13):06x}"

    @property
    def first_number(self) -> int:
        """The least human-readable number of a record."""
        return 1000 + self.seed % 6000

    def new_number(self, prefix: str) -> str:
        """Return the next human-readable number of a record, such as `INV-1042`: the highest one plus 1."""
        name = f"number {prefix}"
        number = self.counters[name] = self.counters.get(name, self.first_number) + 1
        return f"{prefix}-{number}"

    def timestamp(self) -> str:
        """Return the time of the world as `2026-03-04T09:00:00Z`."""
        return iso(self.now)

    def today(self) -> str:
        return self.timestamp()[:10]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Undo all changes made inside the block, including assigned ids, if it raises."""
        before = {name: dict(table) for name, table in self.tables.items()}
        journal, counters = dict(self._journal), dict(self.counters)
        try:
            yield
        except BaseException:
            self.tables, self._journal, self.counters = before, journal, counters
            raise

    def changes(self) -> list[Change]:
        """Return the differences from the start, in the order in which records were first changed."""
        found = (
            Change(collection, record_id, before, self.find(collection, record_id))
            for (collection, record_id), before in self._journal.items()
        )
        return [change for change in found if change.before != change.after]

    def dump(self) -> dict[str, Any]:
        """Return the whole state as JSON."""
        return {"now": self.timestamp(), "settings": dict(self.settings), "tables": self.tables}


def require_status(record: Record, what: str, *allowed: str) -> Record:
    """Return a record whose `status` allows an action.

    Args:
        record: the record.
        what: the noun for it, for the error.
        allowed: the statuses that do.

    Raises:
        ApiError: it has another one: `conflict`.
    """
    if record["status"] not in allowed:
        raise ApiError("conflict", f"The {what} is {record['status']}, not {' or '.join(allowed)}.")
    return record


@lru_cache(maxsize=64)
def iso(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
