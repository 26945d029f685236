"""Wrappers for arguments of `Builder.do` that allow a solution other wordings or values.

The reference solution uses the wrapped value; the objective accepts everything that the wrapper allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from mcp_bench.servers.saasworld.grading.matchers import Matcher

Mention = str | float | tuple[str, ...]
"""A text that must occur, a number in any spelling, or alternatives of which one must occur."""

REFUSAL = (
    *("can't", "cannot", "can not", "unable", "not able", "not allowed", "not possible", "not permitted"),
    *("won't", "will not", "policy", "not eligible", "declined", "decline", "denied", "reject", "rejected"),
    *("outside", "sorry", "unfortunately"),
)
"""A mention that any refusal contains, however it is worded."""


@dataclass(frozen=True)
class Flexible:
    """A value of the reference solution, and the matcher for other solutions."""

    value: Any
    matcher: Matcher


class Also(NamedTuple):
    """Names of fields that a solution can set to any value."""

    fields: tuple[str, ...]


def also(*fields: str) -> Also:
    """Return fields that a solution can set or leave, as the second argument of `Builder.do`."""
    return Also(fields)


def says(text: str, *mentions: Mention, never: tuple[str, ...] = ()) -> Flexible:
    """Accept any text that contains all mentions and nothing of `never`."""
    groups = [list(m) if isinstance(m, tuple) else [plain(m)] for m in mentions]
    return Flexible(text, {"mentions": groups, "never": list(never)})


def plain(value: str | float) -> str:
    """Return a mention as text: 4200.0 as `4200`, 4200.5 as `4200.5`."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def free(value: Any) -> Flexible:
    """Accept any value."""
    return Flexible(value, {"any": True})


def one_of(value: Any, *others: Any) -> Flexible:
    return Flexible(value, {"one_of": [value, *others]})


def within(value: Any, low: Any, high: Any) -> Flexible:
    """Accept a number or a date (as text) in a range, both ends included."""
    return Flexible(value, {"within": [low, high]})


def spoken(day: str) -> tuple[str, ...]:
    """Return a mention of a date in its usual spellings: `2026-03-04`, `March 4`, `4 Mar`, ..."""
    when = date.fromisoformat(day)
    month, short = when.strftime("%B"), when.strftime("%b")
    ordinal = {1: "st", 2: "nd", 3: "rd"}.get(when.day % 10 if when.day not in (11, 12, 13) else 0, "th")
    days = (str(when.day), f"{when.day:02d}", f"{when.day}{ordinal}")
    named = [f"{name} {d}" for name in (month, short) for d in days]
    turned = [f"{d} {of}{name}" for name in (month, short) for d in days for of in ("", "of ")]
    numeric = [f"{when:{form}}" for form in ("%m/%d/%Y", "%d.%m.%Y", "%d/%m/%Y")]
    return (day, *dict.fromkeys([*named, *turned, *numeric]))


def paragraphs(*lines: str) -> str:
    """Return the rules of a policy as one text, a line for each."""
    return "\n".join(lines)


def listed(table: Mapping[str, object], form: str = "{} {}") -> str:
    """Return a table as policies word it, `a 1, b 2`, or in another form, such as `{}: {.email}`."""
    return ", ".join(form.format(name, value) for name, value in table.items())


def literal(value: Any) -> Any:
    """Return a value with all wrappers replaced by the reference solution's values."""
    if isinstance(value, Flexible):
        return literal(value.value)
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [literal(item) for item in value]
    return value
