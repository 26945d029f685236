"""What a check found."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "hint", "problem"]
"""`problem`: it will not work. `hint`: it may, or something optional does not."""
Kind = Literal["machine", "benchmark", "agent"]


@dataclass(frozen=True)
class Finding:
    """One line. `advice` says what to do, and is there unless all is well."""

    level: Level
    check: str
    """What was looked at, such as `login`."""
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    return Finding("ok", check, text)


def hint(check: str, text: str, advice: str) -> Finding:
    return Finding("hint", check, text, advice)


def problem(check: str, text: str, advice: str) -> Finding:
    return Finding("problem", check, text, advice)


@dataclass(frozen=True)
class Check:
    """Something to look at. `run` may block, and may raise: it calls other people's code."""

    kind: Kind
    subject: str
    """What it is about, such as an agent's name."""
    run: Callable[[], Iterator[Finding]]
