"""Errors that a user can act on. The command line prints their text without a traceback."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator


class BenchError(Exception):
    """An error that the user can fix. The text says what is wrong, where, and what to do."""

    exit_code = 1
    may_pass = False
    """Whether the cause can be gone in a while, such as an endpoint that is down."""


class WrongUseError(BenchError):
    """The request is invalid, for example an unknown name or options that exclude each other."""

    exit_code = 2


class FruitlessError(BenchError):
    """There is nothing to work on, or going on would do harm. The same command would end like this again."""

    exit_code = 3


class UnknownNameError(WrongUseError):
    """A name that is not registered. The text lists the nearest ones, or the command that `see` names."""

    def __init__(self, kind: str, name: str, known: Iterable[str], see: str | None = None) -> None:
        hint = suggestion(name, known) or (f" (see `{see}`)" if see else "")
        super().__init__(f"unknown {kind} {name!r}{hint}")


class MissingDependencyError(BenchError):
    """A package or program is not installed; the text says how to install it."""


class SandboxError(BenchError):
    """A sandbox could not be started, or something could not be done in it."""


class SandboxEndedError(SandboxError):
    """What ran in a sandbox exceeded a limit, or ended every process in it: not the machine's fault."""


class SandboxLostError(SandboxError):
    """A sandbox has gone, perhaps with its machine: nothing can be said of what ran there."""


class HostError(BenchError):
    """A model that plays a role in a world (its user, judge or opponent) cannot be asked, or failed."""


class SecretError(BenchError):
    """The secret of a private split is missing or too short to keep anything private."""


class NoSecretError(SecretError):
    """There is no such secret. So no task of the private split was ever made on this machine."""


class WorkerDiedError(BenchError):
    """A benchmark's worker process ended. The text has its exit code and its last output."""


def bench_errors(error: BaseException) -> Iterator[BenchError]:
    """Yield the errors meant for the user, including those inside an exception group."""
    if isinstance(error, BenchError):
        yield error
    elif isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from bench_errors(inner)


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return `` (did you mean ...?)``, or the known names if they are few, else an empty string."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=3, cutoff=0.6)
    if near:
        return f" (did you mean {', '.join(near)}?)"
    if names and len(names) <= 12:
        return f" (known: {', '.join(names)})"
    return ""
