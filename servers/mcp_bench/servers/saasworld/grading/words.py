"""Stored assertions in words: what was required, and what the final state has instead.

An assertion is stored by its name, which `effects` and the families write. The name has the matchers as a
Python literal; the final state has the changes since the start (see `SaasWorld.snapshot`).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from mcp_bench.servers.saasworld.grading.matchers import field_of
from mcp_bench.servers.saasworld.grading.view import blank, differing

# a field can be a column with spaces: values.Forecast USD
_FIELD = re.compile(r"(?P<collection>\S+) (?P<id>\S+): (?P<field>.+?) is (?P<matcher>\{.*\})", re.DOTALL)
_NEW = re.compile(
    r"new in (?P<collection>[\w.]+)(?: \(no\. (?P<nth>\d+)\)|, with details): (?P<where>\{.*\})", re.DOTALL
)
_GONE = re.compile(r"(?P<collection>\S+) (?P<id>\S+) is deleted")
_ELSE = re.compile(r"nothing else changed in (?P<collection>\S+)")
_MOST = 5
"""Records that are listed."""


def describe(name: str, *, passed: bool, final_state: Any) -> tuple[str, str]:
    """Return what an assertion requires, and what was found if it does not hold.

    Args:
        name: of the stored assertion.
        passed: whether it holds.
        final_state: the stored snapshot of the world.
    """
    changes = list((final_state or {}).get("changes", ()))
    if found := _FIELD.fullmatch(name):
        matcher = _literal(found["matcher"])
        required = f"{found['collection']} {found['id']}: {found['field']} {_is(matcher)}"
        return required, "" if passed else _value(changes, found["collection"], found["id"], found["field"])
    if found := _NEW.fullmatch(name):
        where = _literal(found["where"])
        number = int(found["nth"] or 1)
        what = "a new record" if number == 1 else f"{number} new records"
        details = " with all details" if found["nth"] is None else ""
        required = f"{what} in {found['collection']}{details}: {_fits(where)}"
        return required, "" if passed else _new(changes, found["collection"], where)
    if _GONE.fullmatch(name):
        return name, "" if passed else "it is still there"
    if found := _ELSE.fullmatch(name):
        return name, "" if passed else _changed(changes, found["collection"])
    return name, ""


def _literal(text: str) -> dict[str, Any]:
    found = ast.literal_eval(text)
    if not isinstance(found, dict):
        raise TypeError(f"{text!r} is no object")
    return found


def _is(matcher: Mapping[str, Any]) -> str:
    match matcher:
        case {"any": True}:
            return "is anything"
        case {"equals": None}:
            return "is empty"
        case {"equals": value}:
            return f"is {_json(value)}"
        case {"one_of": options}:
            return f"is one of {', '.join(map(_json, options))}"
        case {"mentions": groups, **rest}:
            said = " and ".join(" or ".join(map(_json, group)) for group in groups)
            never = f", and not {' or '.join(map(_json, rest['never']))}" if rest.get("never") else ""
            return f"mentions {said}{never}"
        case {"within": [low, high]}:
            return f"is from {_json(low)} to {_json(high)}"
        case {"keys": names}:
            return f"has no keys but {', '.join(map(_json, names))}"
        case {"created": {"collection": collection, "where": where}}:
            return f"is the new record in {collection} ({_fits(where)})"
    return f"is {matcher}"


def _fits(where: Mapping[str, Mapping[str, Any]]) -> str:
    return ", ".join(f"{field} {_is(matcher)}" for field, matcher in where.items())


def _value(changes: Sequence[Mapping[str, Any]], collection: str, record: str, field: str) -> str:
    for change in changes:
        if (change["collection"], change["id"]) == (collection, record):
            if change["after"] is None:
                return "the record was deleted"
            before, after = field_of(change["before"], field), field_of(change["after"], field)
            still = "still " if before == after else ""
            return f"{field} is {still}{'empty' if blank(after) else _json(after)}"
    return "the record was not changed"


def _new(changes: Sequence[Mapping[str, Any]], collection: str, where: Mapping[str, Any]) -> str:
    new = [
        change["after"]
        for change in changes
        if change["collection"] == collection and change["before"] is None and change["after"] is not None
    ]
    if not new:
        return "no new record there"
    listed = "; ".join(
        ", ".join(f"{field} {_json(field_of(record, field))}" for field in where) for record in new[:_MOST]
    )
    return f"{len(new)} new there: {listed}{'; ...' if new[_MOST:] else ''}"


def _changed(changes: Sequence[Mapping[str, Any]], collection: str) -> str:
    lines = []
    for change in changes:
        if change["collection"] != collection:
            continue
        before, after = change["before"], change["after"]
        if before is None:
            lines.append(f"{change['id']} is new")
        elif after is None:
            lines.append(f"{change['id']} was deleted")
        else:
            fields = sorted({name.partition(".")[0] for name in differing(before, after)})
            if fields:
                lines.append(f"{change['id']}: {', '.join(fields)} changed")
    listed = "; ".join(lines[:_MOST]) + (f"; and {len(lines) - _MOST} more" if lines[_MOST:] else "")
    return f"all changes there: {listed}" if lines else ""


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
