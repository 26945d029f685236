"""Errors a user can act on. The command line prints their text, without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class BenchError(Exception):
    """Something went wrong that the user can mend; the text says what, where, and what to do."""

    exit_code = 1


class WrongUseError(BenchError):
    """The request itself makes no sense (an unknown name, options that exclude each other)."""

    exit_code = 2


class UnknownNameError(WrongUseError):
    """A name that nobody registered; the text lists the nearest ones."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown {kind} {name!r}{suggestion(name, known)}")


class MissingDependencyError(BenchError):
    """A package or program is not installed; the text says how to install it."""


class WorkerDiedError(BenchError):
    """The process that a benchmark runs in ended; the text has its exit code and last words."""


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean ...?)``, or the known names where few, or nothing at all."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return f" (did you mean {', '.join(near)}?)"
    if names and len(names) <= 12:
        return f" (known: {', '.join(names)})"
    return ""
