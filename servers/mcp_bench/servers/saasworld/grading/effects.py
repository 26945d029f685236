"""Turn the changes made by the reference solution into assertions.

Each record that it updated, created or deleted becomes objectives. Each reachable collection becomes one
guardrail: nothing else in it changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from mcp_bench.servers.saasworld.apps import resources
from mcp_bench.servers.saasworld.engine.state import Change, Record, State
from mcp_bench.servers.saasworld.grading.checks import Assertion
from mcp_bench.servers.saasworld.grading.matchers import Matcher, Where
from mcp_bench.servers.saasworld.grading.view import differing

Wanted = Mapping[tuple[str, str], Mapping[str, Matcher]]
"""Matchers of the flexible fields, by collection, id and field."""


def assertions(
    state: State,
    collections: Iterable[str],
    wanted: Wanted,
    allowed: Mapping[tuple[str, str], set[str]],
    optional: Iterable[tuple[str, Where]],
) -> list[Assertion]:
    """Return the objectives, then the guardrails.

    Args:
        state: the state after the reference solution.
        collections: the collections that an agent can reach.
        allowed: additional fields that a solution can change, by collection and id.
        optional: additional records that a solution can create.
    """
    changes = state.changes()
    new_ids = {change.id: change for change in changes if change.before is None}
    objectives: list[Assertion] = []
    guards: dict[str, dict[str, Any]] = {
        name: {"updated": {}, "deleted": [], "created": []}
        for name in [*collections, *(c.collection for c in changes)]
    }
    for change in changes:
        guard = guards[change.collection]
        if change.after is None:
            objectives.append(_gone(change))
            guard["deleted"].append(change.id)
        elif change.before is None:
            key, full = _where(change, wanted, new_ids)
            objectives += _created(change, key, full, guard["created"])
            guard["created"].append(key)
        else:
            fields = {
                name: matcher
                for name in sorted(differing(change.before, change.after) - _bookkeeping(change.collection))
                if (matcher := _matcher(change, name, wanted, new_ids)) != {"any": True}
            }
            objectives += [_updated(change, name, matcher) for name, matcher in fields.items()]
            guard["updated"][change.id] = sorted(differing(change.before, change.after))
    for (collection, record_id), names in allowed.items():
        known = guards[collection]["updated"].setdefault(record_id, [])
        known += sorted(names - set(known))
    for collection, where in optional:
        guards[collection]["created"].append(where)
    return objectives + [
        {"check": "only", "name": f"nothing else changed in {collection}", "collection": collection, **guard}
        for collection, guard in guards.items()
    ]


def _bookkeeping(collection: str) -> set[str]:
    return {field.name for field in resources()[collection].fields if field.system}


def _gone(change: Change) -> Assertion:
    name = f"{change.collection} {change.id} is deleted"
    return {"check": "absent", "name": name, "collection": change.collection, "id": change.id}


def _updated(change: Change, field: str, matcher: Matcher) -> Assertion:
    name = f"{change.collection} {change.id}: {field} is {matcher}"
    place = {"collection": change.collection, "id": change.id, "field": field}
    return {"check": "field", "name": name, **place, "is": matcher}


def _created(change: Change, key: Where, full: Where, before: list[Where]) -> list[Assertion]:
    """Return assertions for a created record: one for its key fields, one for its details.

    If the reference creates several records with the same key, the n-th assertion requires n of them.
    """
    collection, nth = change.collection, 1 + before.count(key)
    one = {"check": "created", "collection": collection}
    found = [{**one, "name": f"new in {collection} (no. {nth}): {key}", "where": key, "at_least": nth}]
    if full != key:
        found.append({**one, "name": f"new in {collection}, with details: {full}", "where": full})
    return found


def _where(change: Change, wanted: Wanted, new_ids: Mapping[str, Change]) -> tuple[Where, Where]:
    """Return the matchers for a new record: those of its key fields, and all of them."""
    resource = resources()[change.collection]
    record: Record = change.after or {}
    full: Where = {}
    for name, value in record.items():
        if name == "id" or value == change.id or resource.by_name[name].system:
            continue
        given = wanted.get((change.collection, change.id), {})
        if isinstance(value, dict):
            for inner in value:
                full[f"{name}.{inner}"] = _matcher(change, f"{name}.{inner}", wanted, new_ids)
            more = {field.partition(".")[2] for field in given if field.startswith(f"{name}.")}
            full[name] = {"keys": sorted(value.keys() | more)}
        elif name in given or not resource.by_name[name].prose:
            full[name] = _matcher(change, name, wanted, new_ids)
    for field in resource.fields:  # fields that the reference left empty must stay empty (no extra cc)
        if field.name not in record and not (field.prose or field.system):
            full[field.name] = wanted.get((change.collection, change.id), {}).get(
                field.name, {"equals": None}
            )
    full = {name: matcher for name, matcher in full.items() if matcher != {"any": True}}
    key = {name: matcher for name, matcher in full.items() if name in resource.key and name in record}
    return key or full, full


def _matcher(change: Change, name: str, wanted: Wanted, new_ids: Mapping[str, Change]) -> Matcher:
    given = wanted.get((change.collection, change.id), {}).get(name)
    if given is not None:
        return given
    outer, _, inner = name.partition(".")
    value = (change.after or {}).get(outer)
    value = value.get(inner) if inner and isinstance(value, dict) else value
    if isinstance(value, str) and value in new_ids and value != change.id:
        # ids of new records depend on the order of the calls: describe the record instead
        other = new_ids[value]
        where, _ = _where(other, wanted, new_ids)
        return {"created": {"collection": other.collection, "where": where}}
    return {"equals": value}
