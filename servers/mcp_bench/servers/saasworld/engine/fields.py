"""Fields of records and parameters of operations. One declaration gives schema, filters and checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

DATE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"
MOMENT = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"
EMAIL = r"^[^@\s]+@[^@\s]+\.[^@\s]+$"
MAX_NUMBER = 1_000_000_000


@dataclass(frozen=True)
class Field:
    """A field of a resource, or a parameter of an operation."""

    name: str
    about: str
    schema: Mapping[str, Any]
    """JSON Schema of the value, without a description."""
    required: bool = False
    default: Any = None
    """Value for new records created without one; None leaves the field out."""
    readonly: bool = False
    """Set by the service, through actions; an agent cannot write it directly."""
    system: bool = False
    """Bookkeeping of the service (times, numbers): readonly, and never checked."""
    auto: str = ""
    """Value that the service sets on creation: `now`, `today`, `me` (the user's address), `id` (the
    record's own), or `number:INV`."""
    prose: bool = False
    """Free text: a solution can use its own words."""
    key: bool = False
    """The key fields together identify a created record, before its details are checked."""
    filter: bool = False
    """`list` has a parameter of this name."""
    range: bool = False
    """`list` has parameters `<name>_min` and `<name>_max`, and can sort by the field."""
    search: bool = False
    detail: bool = False
    """Shown by `get` only, because it is too long for lists."""
    ref: str = ""
    """Collection of the record that the value is the id of."""
    unique: bool = False
    kind: str = ""
    """`date` or `moment`: the value must be a real date or time."""

    @property
    def writable(self) -> bool:
        return not (self.readonly or self.system)

    @property
    def listed(self) -> Mapping[str, Any]:
        """Schema of the `list` filter; array fields are filtered by one of their items."""
        items: Mapping[str, Any] | None = self.schema.get("items")
        return self.schema if items is None else items


def text(name: str, about: str, *, most: int = 200, **flags: Any) -> Field:
    """One line of text."""
    return Field(name, about, {"type": "string", "maxLength": most}, **{"search": True, **flags})


def prose(name: str, about: str, **flags: Any) -> Field:
    """Free text of any length."""
    return Field(
        name, about, {"type": "string", "maxLength": 20000}, **{"prose": True, "search": True, **flags}
    )


def email(name: str, about: str, **flags: Any) -> Field:
    schema = {"type": "string", "pattern": EMAIL, "maxLength": 200}
    return Field(name, about, schema, **{"search": True, "filter": True, **flags})


def emails(name: str, about: str, **flags: Any) -> Field:
    items = {"type": "string", "pattern": EMAIL, "maxLength": 200}
    return Field(name, about, {"type": "array", "items": items, "maxItems": 50}, **{"search": True, **flags})


def texts(name: str, about: str, **flags: Any) -> Field:
    items = {"type": "string", "maxLength": 100}
    return Field(name, about, {"type": "array", "items": items, "maxItems": 50}, **{"search": True, **flags})


def choice(name: str, about: str, *values: str, **flags: Any) -> Field:
    return Field(name, about, {"type": "string", "enum": list(values)}, **{"filter": True, **flags})


def number(name: str, about: str, *, least: float = 0, **flags: Any) -> Field:
    schema = {"type": "number", "minimum": least, "maximum": MAX_NUMBER}
    return Field(name, about, schema, **{"range": True, **flags})


def integer(name: str, about: str, *, least: int = 0, most: int = MAX_NUMBER, **flags: Any) -> Field:
    schema = {"type": "integer", "minimum": least, "maximum": most}
    return Field(name, about, schema, **{"range": True, **flags})


def flag(name: str, about: str, **flags: Any) -> Field:
    return Field(name, about, {"type": "boolean"}, **{"filter": True, **flags})


def date(name: str, about: str, **flags: Any) -> Field:
    """A day, `2026-03-04`."""
    schema = {"type": "string", "pattern": DATE}
    return Field(name, f"{about} (YYYY-MM-DD)", schema, **{"range": True, "kind": "date", **flags})


def moment(name: str, about: str, **flags: Any) -> Field:
    """A time in UTC, `2026-03-04T09:00:00Z`."""
    schema = {"type": "string", "pattern": MOMENT}
    return Field(
        name, f"{about} (UTC, YYYY-MM-DDTHH:MM:SSZ)", schema, **{"range": True, "kind": "moment", **flags}
    )


def ref(name: str, collection: str, about: str, **flags: Any) -> Field:
    """The id of another record."""
    schema = {"type": "string", "maxLength": 40}
    return Field(name, about, schema, **{"ref": collection, "filter": True, "key": True, **flags})


def cells(name: str, about: str, **flags: Any) -> Field:
    """An object with plain values by column or question."""
    size = {"maxLength": 2000, "minimum": -MAX_NUMBER, "maximum": MAX_NUMBER}
    value = {"type": ["string", "number", "boolean"], **size}
    schema = {"type": "object", "additionalProperties": value, "maxProperties": 40}
    return Field(name, about, schema, **{"search": True, **flags})


def ident(one: str) -> Field:
    """The `id` parameter of an operation on one record."""
    return Field("id", f"Id of the {one}.", {"type": "string", "maxLength": 40}, required=True)
