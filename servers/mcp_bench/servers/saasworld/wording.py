"""How a family says which wording, or which values, a solution may choose.

These wrap arguments of `Builder.do`: the reference solution uses the value itself, and the objective
checks what the wrapper allows.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import Any, NamedTuple

from mcp_bench.servers.saasworld.matchers import Matcher

Mention = str | float | tuple[str, ...]
"""Text that must occur, a number in any spelling, or a choice of texts of which one must occur."""

REFUSAL = (
    *("can't", "cannot", "can not", "unable", "not able", "not allowed", "not possible", "not permitted"),
    *("won't", "will not", "policy", "not eligible", "declined", "decline", "denied", "reject", "rejected"),
    *("outside", "sorry", "unfortunately"),
)
"""A mention that a refusal, in whatever words, does not go without."""


@dataclass(frozen=True)
class Flexible:
    """A value of the reference solution with the matcher that others are held to."""

    value: Any
    matcher: Matcher


class Also(NamedTuple):
    """Names of fields that a solution may set as it likes."""

    fields: tuple[str, ...]


def also(*fields: str) -> Also:
    """Name fields that a solution may set or leave, as it likes: second argument of `Builder.do`."""
    return Also(fields)


def says(text: str, *mentions: Mention, never: tuple[str, ...] = ()) -> Flexible:
    """Any text that mentions all of these, and nothing of `never`."""
    groups = [list(m) if isinstance(m, tuple) else [plain(m)] for m in mentions]
    return Flexible(text, {"mentions": groups, "never": list(never)})


def plain(value: str | float) -> str:
    """Return a mention as text; 4200.0 as `4200`, 4200.5 as `4200.5`."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")


def free(value: Any) -> Flexible:
    """Any value at all."""
    return Flexible(value, {"any": True})


def one_of(value: Any, *others: Any) -> Flexible:
    return Flexible(value, {"one_of": [value, *others]})


def within(value: Any, low: Any, high: Any) -> Flexible:
    """A number or a date (text) between two, ends included."""
    return Flexible(value, {"within": [low, high]})


def spoken(day: str) -> tuple[str, ...]:
    """Return the ways people write a date, as a mention: `2026-03-04`, `March 4`, `4 Mar`, ..."""
    when = date.fromisoformat(day)
    month, short = when.strftime("%B"), when.strftime("%b")
    ordinal = {1: "st", 2: "nd", 3: "rd"}.get(when.day % 10 if when.day not in (11, 12, 13) else 0, "th")
    days = (str(when.day), f"{when.day:02d}", f"{when.day}{ordinal}")
    named = [f"{name} {d}" for name in (month, short) for d in days]
    turned = [f"{d} {of}{name}" for name in (month, short) for d in days for of in ("", "of ")]
    numeric = [f"{when:{form}}" for form in ("%m/%d/%Y", "%d.%m.%Y", "%d/%m/%Y")]
    return (day, *dict.fromkeys([*named, *turned, *numeric]))


def literal(value: Any) -> Any:
    """Return a value with everything flexible replaced by what the reference uses."""
    if isinstance(value, Flexible):
        return literal(value.value)
    if isinstance(value, dict):
        return {key: literal(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [literal(item) for item in value]
    return value
