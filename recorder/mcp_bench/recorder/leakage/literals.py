"""Values that can identify a task: ids, addresses, amounts, names, and the numbers of its answer."""

from __future__ import annotations

import json
import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import accumulate, pairwise
from typing import Any

from mcp_bench.servers.contracts import Reference, Task

LONGEST = 200
"""Characters of a literal: longer values are prose."""
FEWEST = 4
SIGNIFICANT = 3
"""Digits of a number that is in few texts by chance, without zeros at its ends."""
ANSWER = "answer"
"""The argument of a call that passes an answer to a tool."""
ANSWER_WORDS = 8
"""Of an answer at most. In a longer one, a small number is a detail."""

_VALUE = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+|https?://[^\s\"'<>)]+|[\w#$€£-]*\d[\w.,:/-]*")
"""Mail addresses, URLs, and words with a digit: ids, amounts, dates."""
_QUOTED = re.compile(r"\"([^\"\n]{4,200})\"|“([^”\n]{4,200})”")
_EDGE = " \t\r\n.,;:!?()[]{}<>\"'`*_"
SMALL = 5
"""Characters of numbers and times of day that are in every text."""
_PLAIN_NUMBER = re.compile(rf"[\d.,:]{{1,{SMALL}}}")
_YEAR = re.compile(r"(?:19|20)\d\d")
_NUMBER = re.compile(r"[$€£]?-?(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?")
_NUMBERS = re.compile(rf"(?<![\w.,:/-]){_NUMBER.pattern}(?!\w|[.,:/-]\d)")
"""Numbers in a text that are no part of a date, a time or a version."""


def literals(task: Task, reference: Reference | None) -> set[str]:
    """Return the values of a task that can identify it: of its prompt, its reference calls and its answer.

    Numbers are there in the form of `number`, so `1250.0` is `1250`.
    """
    found = {*_values(task.prompt), *_names(task.prompt)}
    answers: set[str] = set()
    if reference is not None:
        answers = set(_answers(reference))
        for value in [*(call.arguments for call in reference.calls), reference.answer]:
            for leaf in leaves(value):
                found |= {*_values(leaf), *_names(leaf)}
                if len(leaf) <= LONGEST and _names_something(leaf):
                    found.add(normal(leaf))
    return {*map(_form, filter(_rare, found)), *answers}


def normal(text: str) -> str:
    """Return a text without differences of case, white space and form, and without invisible characters."""
    same = unicodedata.normalize("NFKC", text).casefold()
    if not same.isascii():
        same = "".join(one for one in same if unicodedata.category(one) != "Cf")
    return " ".join(same.split())


def number(text: str) -> str | None:
    """Return a number without its sign, currency, separators and useless zeros; None for other texts."""
    found = _NUMBER.fullmatch(text)
    if found is None:
        return None
    whole, fraction = found[1].replace(",", "").lstrip("0") or "0", (found[2] or "").rstrip("0")
    return f"{whole}.{fraction}" if fraction else whole


def leaves(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a JSON value."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from leaves(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from leaves(inner)
    elif isinstance(value, str):
        yield value
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield json.dumps(value)


class Flat:
    """A text as one normalised line, so that a value which is broken into two lines is found."""

    def __init__(self, text: str) -> None:
        lines = [normal(line) for line in text.splitlines()]
        self._text = " ".join(lines)
        self._starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
        self._numbers: dict[str, int] = {}
        for found in _NUMBERS.finditer(self._text):
            self._numbers.setdefault(number(found[0]) or "", found.start())

    def within(self, among: Iterable[str]) -> Iterator[tuple[str, int]]:
        """Yield the literals that are there as whole words, with the line; the text's first line is 0."""
        for literal in among:
            if (place := self._place(literal)) is not None:
                yield literal, bisect_right(self._starts, place) - 1

    def has(self, literal: str) -> bool:
        return self._place(literal) is not None

    def _place(self, literal: str) -> int | None:
        if (place := self._numbers.get(literal)) is not None:
            return place
        if literal not in self._text:
            return None
        found = re.search(rf"(?<!\w){re.escape(literal)}(?!\w)", self._text)
        small = (
            len(literal) <= SMALL and number(literal) == literal
        )  # it is in dates and in larger numbers, too
        return None if found is None or small else found.start()


def _rare(value: str) -> bool:
    """Return whether a value is in few texts by chance: `1250` is, as `1250.00` is."""
    found = number(value) or ""
    if len(found.replace(".", "")) >= FEWEST and _significant(found) and not _YEAR.fullmatch(found):
        return True
    return len(value) >= FEWEST and not _PLAIN_NUMBER.fullmatch(value)


def _form(literal: str) -> str:
    """Return a literal as it is searched for: numbers that are in no other text by chance, without zeros."""
    found = number(literal)
    return literal if found is None or not _significant(found) else found


def _significant(found: str) -> bool:
    return len(found.replace(".", "").strip("0")) >= SIGNIFICANT


def _answers(reference: Reference) -> Iterator[str]:
    """Yield the numbers of a short answer, also small ones: they are what the task asks for.

    One digit is in every text, and says little.
    """
    given = [one.arguments[ANSWER] for one in reference.calls if ANSWER in one.arguments]
    for text in leaves([reference.answer, *given]):
        if len(text.split()) <= ANSWER_WORDS:
            found = (number(one[0]) or "" for one in _NUMBERS.finditer(text))
            yield from (one for one in found if len(one.replace(".", "")) > 1)


def _values(text: str) -> Iterator[str]:
    for found in _VALUE.finditer(text):
        yield normal(found[0].strip(_EDGE))
    for quoted in _QUOTED.finditer(text):
        words = normal((quoted[1] or quoted[2]).strip(_EDGE))
        if " " in words:
            yield words


def _names(text: str) -> Iterator[str]:
    """Yield each two words with capitals that follow each other: a name, or the start of a sentence and one.

    A name of one word looks like other words with capitals, and is not found.
    """
    for one, other in pairwise(text.split()):
        first, second = one.lstrip(_EDGE), other.strip(_EDGE).removesuffix("'s").removesuffix("\u2019s")
        if one[-1].isalnum() and all(_capital(word) for word in (first, second)):
            yield normal(f"{first} {second}")


def _capital(word: str) -> bool:
    return len(word) > 1 and word[0].isupper() and word[1:].islower()


def _names_something(value: str) -> bool:
    """Return whether a value is a name or a sentence rather than a word of the language.

    Values with a digit count anyway: `_VALUE` has them.
    """
    words = value.split()
    if len(words) == 1:
        return len(value) > 5 and re.search(r"\w[-_.]\w", value) is not None
    return len(words) > 4 or sum(word[0].isupper() for word in words) > 1
