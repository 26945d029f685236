"""Checks and their findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "info", "hint", "unset", "problem"]
"""`problem`: recording will not work. `unset`: it needs something that is not set up, such as the login of an
agent that you may not mean to use; nothing is broken. `hint`: it may work, or works less well. `info`:
nothing is wrong, and something that few need is not installed."""
Kind = Literal["machine", "benchmark", "agent"]


@dataclass(frozen=True)
class Finding:
    """One line of the result. `advice` says what to do; it is empty only for `ok`."""

    level: Level
    check: str
    """What was checked, such as `login`."""
    text: str
    advice: str = ""


def ok(check: str, text: str) -> Finding:
    return Finding("ok", check, text)


def info(check: str, text: str, advice: str) -> Finding:
    return Finding("info", check, text, advice)


def hint(check: str, text: str, advice: str) -> Finding:
    return Finding("hint", check, text, advice)


def unset(check: str, text: str, advice: str) -> Finding:
    return Finding("unset", check, text, advice)


def problem(check: str, text: str, advice: str) -> Finding:
    return Finding("problem", check, text, advice)


@dataclass(frozen=True)
class Check:
    """One check. `run` can block or raise, since it calls third-party code."""

    kind: Kind
    subject: str
    """What is checked, such as an agent's name."""
    run: Callable[[], Iterator[Finding]]
