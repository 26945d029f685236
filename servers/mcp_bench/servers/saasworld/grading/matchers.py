"""Matchers: the conditions that an assertion sets for one field, as JSON.

{"equals": v}                       the same value; ignores case and spacing of text and the order of
                                    lists, and compares numbers to half a cent
{"one_of": [v, ...]}                equal to one of these values
{"mentions": [[a, b], [c]],         the text contains at least one entry of each group, and no entry of
 "never": [d]}                      `never`: whole words, or their beginning for an entry with `*` at
                                    its end; numbers in any spelling (4,200.00 is 4200)
{"within": [low, high]}             a number or a date in this range
{"keys": [k, ...]}                  an object in which all other keys are empty
{"created": {"collection": c,       the id of a created record that matches
             "where": {field: matcher}}}
{"any": true}                       any value
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

from mcp_bench.servers.saasworld.engine.state import Record
from mcp_bench.servers.saasworld.grading.view import View, blank

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
            return between(value, low, high)
        case {"keys": names}:
            return isinstance(value, dict) and all(blank(v) for key, v in value.items() if key not in names)
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
        return blank(value)
    if isinstance(value, bool) or isinstance(wanted, bool):
        return value is wanted
    if isinstance(value, int | float) and isinstance(wanted, int | float):
        try:
            return abs(value - wanted) < CENT
        except OverflowError:  # an integer that no float can hold
            return False
    if isinstance(value, str) and isinstance(wanted, str):
        return normal(value) == normal(wanted)
    if isinstance(value, list) and isinstance(wanted, list):
        return sorted(map(str, map(normal_item, value))) == sorted(map(str, map(normal_item, wanted)))
    return bool(value == wanted)


def between(value: Any, low: Any, high: Any) -> bool:
    try:
        return not isinstance(value, bool) and bool(low <= value <= high)
    except TypeError:  # a text where a number is wanted, or nothing
        return False


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


_PLAIN = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013", "-") | {"\u2018": "'", "\u2019": "'"})
"""Hyphens, dashes in numbers and apostrophes, as a keyboard has them."""


def spelled(text: str) -> str:
    """Return text with plain apostrophes and dashes, whole negations, and numbers without separators."""
    text = normal(text.translate(_PLAIN))
    text = re.sub(r"\bwon't\b", "will not", text)
    text = re.sub(r"\bcan(?:'t|not)\b", "can not", text)
    text = re.sub(r"n't\b", " not", text)
    return re.sub(r"(?<=\d),(?=\d{3}(?!\d))", "", text)


@lru_cache(maxsize=4096)
def _phrase(words: str) -> re.Pattern[str]:
    """Return a pattern that matches the words, but not inside a longer word or number."""
    stem = words.endswith("*")
    plain = spelled(words.removesuffix("*"))
    before = r"(?<![\d.])" if plain[:1].isdigit() else r"(?<!\w)" if plain[:1].isalpha() else ""
    return re.compile(before + re.escape(plain) + ("" if stem else _end(plain)))


def _end(plain: str) -> str:
    """Return a pattern for what can follow the words."""
    if not plain[-1:].isdigit():
        return r"(?!\w)" if plain[-1:].isalpha() else ""
    if any(character.isalpha() for character in plain):  # a code, such as INV-1042
        return r"(?!\w|\.\d)"
    zeros = "0*" if re.search(r"\.\d+$", plain) else r"(?:\.0+)?"  # 12.5 also matches 12.50
    return zeros + r"(?!\d|\.\d)"
