"""Say in words where the values of a call come from, as far as the request and the results so far show it.

    camp_07fe: status "completed". camp_41c2: status "active". With status "active": camp_41c2.
    17500 - 1000 = 16500.

A model that learns from such rows writes down what it compares and calculates before it decides (chain of
thought, https://arxiv.org/abs/2201.11903; scratchpads, https://arxiv.org/abs/2112.00114). The words are found
by looking, not by knowing the task: a value that is in the request, or has no visible source, gets none.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from itertools import chain, product
from typing import Any, TypeGuard

Scalar = str | int | float | bool | None
Item = Mapping[str, Any]

FEW = 4
"""Up to so many items are gone through one by one before one of them is named."""

_NUMBER = re.compile(r"(?<![\w.-])\d[\d,]*(?:\.\d+)?(?![\w-])")
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_STATE = re.compile(r"[a-z][a-z_]*")
_WORD = re.compile(r"\d{4}-\d\d-\d\d|\d\d:\d\d|[^\W_]+")  # a date is one word


class Explainer:
    """Follows one attempt, and explains each call before it is made."""

    def __init__(self, request: str) -> None:
        self._request = request
        self._words = _words(request)
        self._numbers = [_number(found) for found in _NUMBER.findall(request)]
        self._results: list[tuple[Item, ...]] = []
        """The items of each result: the objects in its lists, or the object itself."""
        self._used: set[str] = set()
        """Values of earlier calls: they are known and need no words again."""

    def took(self, result: str) -> None:
        """Take the text that a call returned into account."""
        try:
            document = json.loads(result)
        except ValueError:
            return
        self._results.append(tuple(_items(document)))

    def explain(self, arguments: Mapping[str, Any]) -> str | None:
        """Return the words for a call with these arguments; None if there is nothing to say."""
        said: list[str] = []
        explained: list[Item] = []
        for name, value in _leaves(arguments):
            if _key(value) not in self._used:
                words = self._choice(value, explained) or self._sum(name, value, arguments)
                if words and words not in said:
                    said.append(words)
            self._used.add(_key(value))
        return " ".join(said) or None

    def _choice(self, value: Scalar, explained: list[Item]) -> str | None:
        """Say why the item with this value is the one, if it was one of several."""
        if isinstance(value, bool) or value is None or self._requested(value):
            return None
        for items in reversed(self._results):
            holders = [item for item in items if any(_equal(mark, value) for mark in _scalars(item).values())]
            if not holders:
                continue
            if len(holders) > 1 or len(items) == 1 or holders[0] in explained:
                return None
            explained.append(holders[0])
            chosen, rest = _scalars(holders[0]), [_scalars(item) for item in items if item != holders[0]]
            marks = self._marks(chosen, rest, value)
            if not marks:
                return None
            source = next(name for name, mark in chosen.items() if _equal(mark, value))
            listed = [_scalars(item) for item in items] if len(items) <= FEW else []
            seen = [f"{item.get(source)}: {self._fields(item, marks)}." for item in listed]
            return " ".join([*seen, f"With {self._fields(chosen, marks)}: {value}."])
        return None

    def _fields(self, item: Item, names: Sequence[str]) -> str:
        """Write some fields of an item: `status "active", name "Spring"`."""
        return ", ".join(f"{name} {self._mark(item[name])}" for name in names if name in item) or "none of it"

    def _mark(self, mark: Scalar) -> str:
        words = json.dumps(mark, ensure_ascii=False)
        meant = self._meant(mark)
        return f"{words} is {json.dumps(meant, ensure_ascii=False)}" if meant else words

    def _marks(self, chosen: Item, rest: Sequence[Item], value: Scalar) -> list[str]:
        """Return the fewest fields that set the chosen item apart, those of the request first."""
        fields = {name: mark for name, mark in chosen.items() if not _equal(mark, value) and name != "id"}
        marks: list[str] = []
        while rest:
            ranked = {
                name: self._weight(name, mark, rest) for name, mark in fields.items() if name not in marks
            }
            best = max(ranked, key=lambda name: ranked[name], default=None)
            if best is None or ranked[best] <= 0:
                return []
            marks.append(best)
            rest = [item for item in rest if _equal(item.get(best), fields[best])]
        return marks

    def _weight(self, name: str, mark: Scalar, rest: Sequence[Item]) -> float:
        """Say how well a field shows that the request means this item and not those that differ in it."""
        differ = [item.get(name) for item in rest if not _equal(item.get(name), mark)]
        if not differ:
            return 0.0
        if _key(mark) in self._used:
            return 2.0
        words = _words(str(self._meant(mark) or mark))
        common = set[str].intersection(*(_words(str(other)) for other in differ))
        telling = (words & self._words) - common
        if telling:  # all the better if it needs no second field beside it
            return 1.0 + len(telling) / len(words) + (len(differ) == len(rest))
        state = isinstance(mark, bool) or mark is None or _STATE.fullmatch(str(mark)) is not None
        return len(differ) / len(rest) / 2 if state else 0.0

    def _meant(self, mark: Scalar) -> str | None:
        """Return the requested name of the item with this id, if an earlier result has one."""
        for items in self._results:
            for item in items:
                if _equal(item.get("id"), mark):
                    texts = [text for text in _scalars(item).values() if isinstance(text, str)]
                    return next(
                        (t for t in texts if t != mark and t.casefold() in self._request.casefold()), None
                    )
        return None

    def _requested(self, value: Scalar) -> bool:
        if isinstance(value, str):
            return value.casefold() in self._request.casefold()
        return value in self._numbers

    def _sum(self, name: str, value: Scalar, arguments: Mapping[str, Any]) -> str | None:
        """Write the calculation that gives a number or a date which nobody has named."""
        if isinstance(value, str):
            return self._later(value) if _DATE.fullmatch(value) else None
        if not _is_number(value) or self._requested(value):
            return None
        near = self._near(arguments)
        if any(_same(value, number) for _, number in near):
            return None
        own = [number for _, number in sorted(near, key=lambda pair: pair[0] != name)]
        asked = self._numbers
        for first, second in chain(product(own, asked), product(own, own), product(asked, asked)):
            if words := _calculation(first, second, value):
                return words
        return None

    def _near(self, arguments: Mapping[str, Any]) -> list[tuple[str, float]]:
        """Return the named numbers of the items that the arguments name, the latest result first."""
        named = {_key(value) for _, value in _leaves(arguments)}
        found = []
        for items in reversed(self._results):
            for item in items:
                scalars = _scalars(item)
                if len(items) == 1 or named & {_key(mark) for mark in scalars.values()}:
                    found += [(n, v) for n, v in scalars.items() if _is_number(v) and v]
        return found

    def _later(self, value: str) -> str | None:
        """Say from which date a date was counted, if the request says how many days or weeks."""
        day = _day(value)
        starts = [start for text in _DATE.findall(self._request) if (start := _day(text))]
        starts += [
            start
            for items in reversed(self._results)
            for item in items
            for mark in _scalars(item).values()
            if isinstance(mark, str) and (start := _day(mark[:10]))
        ]
        if day is None or day in starts:
            return None
        for start, number in product(starts, self._numbers):
            for days, unit in ((number, "days"), (7 * number, "weeks")):
                if (day - start).days == days:
                    return f"{start} + {_plain(number)} {unit} = {value}."
        return None


def _calculation(first: float, second: float, wanted: float) -> str | None:
    """Return how two numbers give a third one, if one of the usual calculations does."""
    a, b, result = _plain(first), _plain(second), _plain(wanted)
    if _same(first + second, wanted):
        return f"{a} + {b} = {result}."
    if _same(first - second, wanted):
        return f"{a} - {b} = {result}."
    part = first * second / 100
    if 0 < second < 100:
        if _same(first + part, wanted):
            return f"{b} percent of {a} is {_plain(part)}. {a} + {_plain(part)} = {result}."
        if _same(first - part, wanted):
            return f"{b} percent of {a} is {_plain(part)}. {a} - {_plain(part)} = {result}."
        if _same(part, wanted):
            return f"{b} percent of {a} is {result}."
    if second not in (0, 1) and _same(first * second, wanted):
        return f"{a} * {b} = {result}."
    return None


def _day(text: str) -> date | None:
    try:
        return date.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None


def _items(document: Any) -> Iterator[Item]:
    if isinstance(document, list):
        yield from (item for item in document if isinstance(item, dict))
    elif isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list)]
        objects = [item for value in lists for item in value if isinstance(item, dict)]
        yield from objects or [document]


def _scalars(item: Item) -> dict[str, Scalar]:
    return dict(_leaves(item))


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Scalar]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else key)
    elif isinstance(value, list):
        for inner in value:
            yield from _leaves(inner, name)
    else:
        yield name, value


def _words(text: str) -> set[str]:
    return {word.casefold() for word in _WORD.findall(text)}


def _key(value: Scalar) -> str:
    return json.dumps(value)  # apart from `==`, it keeps 1 and True apart


def _equal(one: Any, other: Any) -> bool:
    """Return whether two values are the same; 1 is not True."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _is_number(value: Scalar) -> TypeGuard[float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(one: float, other: float) -> bool:
    return abs(one - other) < 0.005


def _plain(number: float) -> str:
    return f"{number:.2f}".rstrip("0").rstrip(".")
