"""A resource: one declaration of a record type gives list, get, search, create, update and delete."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mcp_bench.servers.saasworld.engine.api_error import ApiError, echo, invalid
from mcp_bench.servers.saasworld.engine.fields import Field, ident
from mcp_bench.servers.saasworld.engine.operation import Arguments, Operation, Run
from mcp_bench.servers.saasworld.engine.state import Record, State
from mcp_bench.servers.saasworld.engine.validation import check_value

PAGE = 20
MAX_PAGE = 100
CRUD = ("list", "get", "search", "create", "update", "delete")

Rule = Callable[[State, Record, Record | None], Record]
"""Checks or completes a record before it is stored. Takes `(state, record, before)`, returns the record."""


@dataclass(frozen=True, eq=False)
class Resource:
    app: str
    name: str
    one: str
    """Singular name, such as "contact"."""
    prefix: str
    """Prefix of the ids."""
    about: str
    fields: tuple[Field, ...]
    verbs: tuple[str, ...] = CRUD
    rule: Rule | None = None
    held_by: tuple[tuple[str, str], ...] = ()
    """Collections and fields that can refer to a record. A record that is referred to cannot be deleted."""

    @property
    def collection(self) -> str:
        return f"{self.app}.{self.name}"

    @property
    def tool(self) -> str:
        """Prefix of the tools' names: `crm_contacts`, but `documents` for the app documents' documents."""
        return self.app if self.app == self.name else f"{self.app}_{self.name}"

    @property
    def many(self) -> str:
        return self.name.replace("_", " ")

    @cached_property
    def by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @cached_property
    def defaults(self) -> Record:
        return {field.name: field.default for field in self.fields if field.default is not None}

    @cached_property
    def order(self) -> tuple[str, ...]:
        return ("id", *self.by_name)

    @cached_property
    def required(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if field.required)

    @cached_property
    def automatic(self) -> tuple[Field, ...]:
        return tuple(field for field in self.fields if field.auto)

    @cached_property
    def searched(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields if field.search)

    @cached_property
    def hidden_in_lists(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if field.detail)

    @cached_property
    def key(self) -> frozenset[str]:
        return frozenset(field.name for field in self.fields if field.key)

    def operations(self) -> Iterator[Operation]:
        """Yield the generic operations."""
        makers = {"list": _list, "get": _get, "search": _search}
        makers |= {"create": _create, "update": _update, "delete": _delete}
        for verb in self.verbs:
            yield makers[verb](self)

    def action(
        self, verb: str, about: str, *parameters: Field, method: str = "POST", path: str = ""
    ) -> Callable[[Run], Operation]:
        """Turn a function into an operation. The path contains `/{id}` if `id` is a parameter."""
        item = "/{id}" if any(field.name == "id" for field in parameters) else ""

        def decorate(run: Run) -> Operation:
            return Operation(
                name=f"{self.tool}_{verb}",
                app=self.app,
                method=method,
                path=path or f"/{self.name}{item}/{verb}",
                about=about,
                short=about.partition(".")[0] + ".",
                parameters=parameters,
                run=run,
                writes=method != "GET",
            )

        return decorate


def insert(state: State, resource: Resource, **values: Any) -> Record:
    """Store a new record with defaults, automatic fields and an id.

    Raises:
        ApiError: a value refers to a missing record, is not unique, or breaks the resource's rule.
    """
    _check(state, resource, values, None)
    record: Record = {"id": state.new_id(resource.prefix), **resource.defaults, **values}
    for field in resource.automatic:
        if field.name not in values:
            record[field.name] = automatic(state, field, record["id"])
    if resource.rule is not None:
        record = resource.rule(state, record, None)
    return state.put(resource.collection, in_order(resource, record))


def in_order(resource: Resource, record: Record) -> Record:
    """Return a record with its fields in declared order: the order must not reveal who created it."""
    return {name: record[name] for name in resource.order if name in record}


def automatic(state: State, field: Field, record_id: str) -> str:
    """Return the value that the service sets for a field of a new record."""
    kind, _, prefix = field.auto.partition(":")
    match kind:
        case "number":
            return state.new_number(prefix)
        case "me":
            return str(state.settings["me"]["email"])
        case "id":
            return record_id
        case "today":
            return state.today()
        case _:
            return state.timestamp()


def change(state: State, resource: Resource, record: Record, **values: Any) -> Record:
    """Replace some fields of a record.

    Raises:
        ApiError: see `insert`.
    """
    _check(state, resource, values, record)
    changed = {**record, **values}
    if resource.rule is not None:
        changed = resource.rule(state, changed, record)
    return state.put(resource.collection, in_order(resource, changed))


def _check(state: State, resource: Resource, values: Record, record: Record | None) -> None:
    for name, value in values.items():
        field = resource.by_name[name]
        check_value(field, value)
        if field.ref and value:
            state.need(field.ref, value, name)
        if field.unique and (record is None or record.get(name) != value):
            own = None if record is None else record["id"]
            rows = state.rows(resource.collection)
            taken = next((row for row in rows if row["id"] != own and _same(row.get(name), value)), None)
            if taken is not None:
                raise ApiError("conflict", f"{name} {echo(value)} is taken by {taken['id']}.", name)


def page(resource: Resource, rows: list[Record], start: int = 0, limit: int = PAGE) -> dict[str, Any]:
    """Return one page of records in the form of lists."""
    hidden = resource.hidden_in_lists
    items = rows[start : start + limit]
    if hidden:
        items = [{name: value for name, value in row.items() if name not in hidden} for row in items]
    result: dict[str, Any] = {"items": items, "total": len(rows)}
    if start + limit < len(rows):
        result["next_cursor"] = f"c{start + limit}"
    return result


def matches(record: Record, query: str, names: tuple[str, ...]) -> bool:
    """Return whether every word of a query occurs in one of the fields, ignoring case."""
    found = " ".join(str(record[name]) for name in names if name in record).casefold()
    return all(word in found for word in query.casefold().split())


def _same(stored: Any, wanted: Any) -> bool:
    if isinstance(stored, list):
        return any(_same(item, wanted) for item in stored)
    if isinstance(stored, str) and isinstance(wanted, str):
        return stored.casefold() == wanted.casefold()
    return bool(stored == wanted) and isinstance(stored, bool) == isinstance(wanted, bool)


def _operation(
    resource: Resource,
    verb: str,
    method: str,
    path: str,
    about: str,
    short: str,
    parameters: list[Field],
    run: Run,
) -> Operation:
    return Operation(
        name=f"{resource.tool}_{verb}",
        app=resource.app,
        method=method,
        path=f"/{resource.name}{path}",
        about=about,
        short=short,
        parameters=tuple(parameters),
        run=run,
        writes=method != "GET",
    )


LIMIT = Field(
    "limit", f"Page size, {PAGE} by default.", {"type": "integer", "minimum": 1, "maximum": MAX_PAGE}
)
CURSOR = Field("cursor", "`next_cursor` of the page before.", {"type": "string", "maxLength": 20})


def start_of(cursor: str) -> int:
    """Return the row number that a cursor encodes.

    Raises:
        ApiError: the cursor is not one that a list returned.
    """
    found = re.fullmatch("c([0-9]{1,9})", cursor)
    if found is None:
        raise invalid("cursor", "cursor must be the next_cursor of the page before.")
    return int(found[1])


def _list(resource: Resource) -> Operation:
    filters = [
        Field(field.name, f"Only with this {field.name.replace('_', ' ')}.", field.listed, kind=field.kind)
        for field in resource.fields
        if field.filter
    ]
    ranged = [field for field in resource.fields if field.range]
    for field in ranged:
        filters.append(
            Field(f"{field.name}_min", f"Only from this {field.name} on.", field.schema, kind=field.kind)
        )
        filters.append(
            Field(f"{field.name}_max", f"Only up to this {field.name}.", field.schema, kind=field.kind)
        )
    exact = {field.name for field in resource.fields if field.filter}
    order = [name for field in ranged for name in (field.name, f"-{field.name}")]
    sort = Field("sort", "Field to sort by; `-` for descending.", {"type": "string", "enum": order})

    def run(state: State, args: Arguments) -> dict[str, Any]:
        rows = list(state.rows(resource.collection))
        for name, value in args.items():
            if name in exact:
                rows = [row for row in rows if _same(row.get(name), value)]
            elif name.endswith("_min"):
                rows = [row for row in rows if name[:-4] in row and row[name[:-4]] >= value]
            elif name.endswith("_max"):
                rows = [row for row in rows if name[:-4] in row and row[name[:-4]] <= value]
        if "sort" in args:
            by = args["sort"].lstrip("-")
            valued = sorted(
                (row for row in rows if by in row), key=lambda row: row[by], reverse=args["sort"][0] == "-"
            )
            rows = valued + [row for row in rows if by not in row]
        return page(resource, rows, start_of(args.get("cursor", "c0")), args.get("limit", PAGE))

    about = f"List {resource.many}, page by page. {resource.about}"
    parameters = [*filters, *([sort] if order else []), LIMIT, CURSOR]
    return _operation(resource, "list", "GET", "", about, f"List {resource.many}.", parameters, run)


def _get(resource: Resource) -> Operation:
    def run(state: State, args: Arguments) -> dict[str, Any]:
        return state.need(resource.collection, args["id"])

    about = f"Get one {resource.one} with all its fields, by id."
    short = f"Get one {resource.one}."
    return _operation(resource, "get", "GET", "/{id}", about, short, [ident(resource.one)], run)


def _search(resource: Resource) -> Operation:
    query = Field("query", "Words that must all occur.", {"type": "string", "maxLength": 200}, required=True)

    def run(state: State, args: Arguments) -> dict[str, Any]:
        rows = [
            row for row in state.rows(resource.collection) if matches(row, args["query"], resource.searched)
        ]
        return page(resource, rows, start_of(args.get("cursor", "c0")), args.get("limit", PAGE))

    names = ", ".join(resource.searched)
    about = f"Find {resource.many} by text in {names}. Every word must occur; case does not matter."
    short = f"Find {resource.many} by text."
    return _operation(resource, "search", "GET", "/search", about, short, [query, LIMIT, CURSOR], run)


def _create(resource: Resource) -> Operation:
    def run(state: State, args: Arguments) -> dict[str, Any]:
        return insert(state, resource, **args)

    about = f"Create a {resource.one} and return it. {resource.about}"
    parameters = [field for field in resource.fields if field.writable]
    return _operation(resource, "create", "POST", "", about, f"Create a {resource.one}.", parameters, run)


def _update(resource: Resource) -> Operation:
    def run(state: State, args: Arguments) -> dict[str, Any]:
        record = state.need(resource.collection, args["id"])
        values = {name: value for name, value in args.items() if name != "id"}
        if not values:
            raise ApiError("validation_error", "Nothing to change: give at least one field besides id.")
        return change(state, resource, record, **values)

    about = f"Change fields of a {resource.one} and return it. Fields that are not given stay as they are."
    parameters = [replace(field, required=False) for field in resource.fields if field.writable]
    short = f"Change a {resource.one}."
    return _operation(
        resource, "update", "PATCH", "/{id}", about, short, [ident(resource.one), *parameters], run
    )


def _delete(resource: Resource) -> Operation:
    def run(state: State, args: Arguments) -> dict[str, Any]:
        record = state.need(resource.collection, args["id"])
        for collection, field in resource.held_by:
            if any(row.get(field) == record["id"] for row in state.rows(collection)):
                what = collection.partition(".")[2].replace("_", " ")
                raise ApiError("conflict", f"The {resource.one} still has {what}: delete or move them first.")
        state.remove(resource.collection, record["id"])
        return {"id": record["id"], "deleted": True}

    about = f"Delete a {resource.one} for good. Refused while other records belong to it."
    short = f"Delete a {resource.one}."
    return _operation(resource, "delete", "DELETE", "/{id}", about, short, [ident(resource.one)], run)
