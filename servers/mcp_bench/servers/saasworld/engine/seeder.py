"""Create the initial records of a world."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from mcp_bench.servers.saasworld.engine.draw import Draw, Person
from mcp_bench.servers.saasworld.engine.fields import Field
from mcp_bench.servers.saasworld.engine.resource import Resource, automatic
from mcp_bench.servers.saasworld.engine.state import DRAWN_PLACES, Record, State

NUMBERS = 2000
"""The numbers of the initial records, such as `INV-1042`, are drawn from so many."""
DEPARTMENTS = ("Sales", "Marketing", "Operations", "Support", "Finance", "People", "Engineering")


class FamilyError(Exception):
    """A task family has a bug: an error for its author, not for a user."""


class Seeder(Draw):
    """Draws and records.

    `org` is the company that the user works for, `me` the user, `staff` the colleagues. They are the same
    people in every app.
    """

    def __init__(self, seed: int, half: int, now: int, resources: Mapping[str, Resource]) -> None:
        """Draw the company, the user and the colleagues.

        Args:
            resources: the resources of all apps, by collection.
        """
        super().__init__(seed, half, datetime.fromtimestamp(now, UTC).date())
        self._resources = resources
        self._marks = Draw(seed + 1, half, self.today)  # draws of its own: adding a record shifts no others
        self.org = self.company()
        self.me: Person = self.person(self.org)
        self.staff: list[Person] = [self.person(self.org) for _ in range(12)]
        me = {"name": self.me.name, "email": self.me.email, "company": self.org.name}
        self.settings: dict[str, Any] = {"me": me}
        self.state = State({}, now=now, seed=int(self._random() * 2**32), settings=self.settings)

    def add(self, collection: str, **values: Any) -> Record:
        """Add a record to the initial state and return it, with its `id`.

        Missing fields get the app's defaults; missing automatic fields get a time in the past, a number or
        the user. Readonly and automatic fields can be given too (`created_at=...`). None leaves a field out.

        Raises:
            FamilyError: the collection or a field does not exist, or a required field is missing.
        """
        resource = self._resources.get(collection)
        if resource is None:
            known = ", ".join(self._resources)
            raise FamilyError(f"there is no collection {collection!r} (there are: {known})")
        if not values.keys() <= resource.by_name.keys():
            unknown, known = values.keys() - resource.by_name.keys(), ", ".join(resource.by_name)
            raise FamilyError(f"{collection} has no field {', '.join(sorted(unknown))} (it has: {known})")
        state = self.state
        given: Record = {"id": self._id(resource.prefix), **resource.defaults, **values}
        for field in resource.automatic:
            if field.name not in values:
                given[field.name] = self._past(field, given["id"])
        record = {name: value for name in resource.order if (value := given.get(name)) is not None}
        if not resource.required <= record.keys():
            raise FamilyError(f"{collection} needs {', '.join(sorted(resource.required - record.keys()))}")
        state.tables.setdefault(collection, {})[record["id"]] = record
        return record

    def _past(self, field: Field, record_id: str) -> str:
        """Return an automatic value for a record that was created some time ago."""
        kind, _, prefix = field.auto.partition(":")
        match kind:
            case "now":
                return self.moment(-90, -1)
            case "today":
                return self.day(-90, -1)
            case "number":
                return self._number(prefix)
            case _:
                return automatic(self.state, field, record_id)

    # Families make the records that matter first or last. Ids and numbers are drawn, so they show nothing.

    def _id(self, prefix: str) -> str:
        marks = self._marks
        return marks.fresh(lambda _: self.state.id_at(prefix, marks.integer(0, DRAWN_PLACES - 1)))

    def _number(self, prefix: str) -> str:
        marks, counters, name = self._marks, self.state.counters, f"number {prefix}"
        first = self.state.first_number
        drawn = marks.fresh(
            lambda wide: f"{prefix}-{marks.integer(first, first + NUMBERS * (10 if wide else 1))}"
        )
        counters[name] = max(counters.get(name, first), int(drawn.rpartition("-")[2]))
        return drawn
