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

DENIED = (
    *("declin*", "denied", "deny", "denying", "reject*", "refus*"),
    *("turned down", "turn down", "turning down"),
    *(f"not {be}{done}*" for be in ("", "be ", "been ") for done in ("approv", "grant", "accept", "agree")),
)
"""Plain words for a no, which no approval contains."""

REFUSAL = (
    *DENIED,
    *("can not", "could not", "will not", "can no longer", "unable", "impossible", "ineligible"),
    *("not able", "not possible", "no longer possible", "not eligible", "not qualif*", "not meet"),
    *("not allow*", "not be allowed", "not permit*", "not be permitted", "no exception*", "decided against"),
    *("unfortunately", "regret*", "afraid", "answer is no", "is a no", "say no"),
)
"""A mention that any refusal contains, however it is worded. Take `never=grants()` with it."""


def grants(*things: str) -> tuple[str, ...]:
    """Return what no refusal says: that it is good news, or that the reader's request is granted.

    The reasons of a refusal may name other requests that were granted, so those do not count.

    Args:
        things: what the request is called besides, such as `discount`.
    """
    gets = [f"you {get} {what}" for get in ("get", "will get") for what in ("the", "your")]
    be, done = ("is", "was", "has been"), ("approved", "granted", "accepted")
    yours = [f"your {it} {verb} {word}" for it in ("request", *things) for verb in be for word in done]
    return ("good news", "great news", *gets, *yours)


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
    """Accept any text that contains all mentions and nothing of `never`.

    They are whole words; with `*` at the end, the beginning of one: `approv*`.
    """
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
    """Return a mention of a date in its usual spellings: `2026-03-04`, `March 4`, `4 Mar.`, `3/4/2026`, ...

    Where it is open which number is the month, both count.
    """
    when = date.fromisoformat(day)
    month, short = when.strftime("%B"), when.strftime("%b")
    names = (month, short, *(("Sept",) if short == "Sep" else ()))
    ordinal = {1: "st", 2: "nd", 3: "rd"}.get(when.day % 10 if when.day not in (11, 12, 13) else 0, "th")
    days = (str(when.day), f"{when.day:02d}", f"{when.day}{ordinal}")
    named = [f"{name}{dot} {d}" for name in names for dot in ("", ".") for d in (*days, f"the {days[2]}")]
    turned = [f"{d} {of}{name}" for name in names for d in days for of in ("", "of ")]
    dashed = [f"{d}{mark}{name}" for name in names for d in days[:2] for mark in ("-", ". ")]
    numeric = [f"{when:{form}}" for form in ("%m/%d/%Y", "%d.%m.%Y", "%d/%m/%Y", "%d-%m-%Y", "%Y/%m/%d")]
    brief = [f"{when.day}{mark}{when.month}{mark}{when.year}" for mark in ("/", ".", "-")]
    brief.append(f"{when.month}/{when.day}/{when.year}")
    return (day, *dict.fromkeys([*named, *turned, *dashed, *numeric, *brief]))


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
