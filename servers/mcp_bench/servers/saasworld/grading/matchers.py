"""Matchers: the conditions that an assertion sets for one field, as JSON.

{"equals": v}                       the same value; ignores case and spacing of text and the order of
                                    lists, and compares numbers to half a cent
{"one_of": [v, ...]}                equal to one of these values
{"mentions": [[a, b], [c]],         the text contains at least one entry of each group, numbers in any
 "never": [d]}                      spelling (4,200.00 is 4200), and no entry of `never`
{"within": [low, high]}             a number or a date in this range
{"created": {"collection": c,       the id of a created record that matches
             "where": {field: matcher}}}
{"any": true}                       any value
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from mcp_bench.servers.saasworld.engine.state import Record
from mcp_bench.servers.saasworld.grading.view import View

Matcher = dict[str, Any]
Where = dict[str, Matcher]
"""Matchers by field. `values.Status` is a key of an object."""

CENT = 0.005


def holds(matcher: Matcher, value: Any, view: View) -> bool:
    """Return whether a value matches. None stands for a field that is not set."""
    match matcher:
        case {"any": True}:
            return True
        case {"equals": wanted}:
            return same(value, wanted)
        case {"one_of": options}:
            return any(same(value, option) for option in options)
        case {"mentions": groups, **rest}:
            return isinstance(value, str) and says(value, groups, rest.get("never", []))
        case {"within": [low, high]}:
            return (
                value is not None and not isinstance(value, bool | list | dict) and bool(low <= value <= high)
            )
        case {"created": {"collection": collection, "where": where}}:
            return any(row["id"] == value and fits(row, where, view) for row in view.created(collection))
    raise ValueError(f"there is no matcher {matcher}")


def fits(record: Record, where: Where, view: View) -> bool:
    return all(holds(matcher, field_of(record, name), view) for name, matcher in where.items())


def field_of(record: Record | None, name: str) -> Any:
    """Return the value of a field. `values.Status` is the key `Status` of the object `values`."""
    if record is None:
        return None
    if name in record:
        return record[name]
    outer, _, inner = name.partition(".")
    return record[outer].get(inner) if inner and isinstance(record.get(outer), dict) else None


def same(value: Any, wanted: Any) -> bool:
    if wanted is None:
        return value in (None, "", [])
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        return abs(value - wanted) < CENT
    if isinstance(value, str) and isinstance(wanted, str):
        return normal(value) == normal(wanted)
    if isinstance(value, list) and isinstance(wanted, list):
        return sorted(map(str, map(normal_item, value))) == sorted(map(str, map(normal_item, wanted)))
    return bool(value == wanted)


def normal_item(value: Any) -> Any:
    return normal(value) if isinstance(value, str) else value


def normal(text: str) -> str:
    """Return text in lower case with single spaces."""
    return " ".join(text.casefold().split())


def says(text: str, groups: list[list[str]], never: list[str]) -> bool:
    found = spelled(text)
    return all(any(_phrase(word).search(found) for word in group) for group in groups) and not any(
        _phrase(word).search(found) for word in never
    )


def spelled(text: str) -> str:
    """Return text with plain apostrophes and dashes, and numbers without thousands separators."""
    text = normal(text.replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace("\N{EN DASH}", "-"))
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)


@lru_cache(maxsize=4096)
def _phrase(words: str) -> re.Pattern[str]:
    """Return a pattern that matches the words, but not inside a longer word or number."""
    plain = spelled(words)
    before = r"(?<![\d.])" if plain[:1].isdigit() else r"(?<!\w)" if plain[:1].isalpha() else ""
    zeros = "0*" if re.search(r"\.\d+$", plain) else r"(?:\.0+)?"  # 12.5 also matches 12.50
    after = zeros + r"(?!\d|\.\d)" if plain[-1:].isdigit() else ""
    return re.compile(before + re.escape(plain) + after)
