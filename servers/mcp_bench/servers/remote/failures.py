"""Transfer errors from a worker to its parent, as the name of their class and their text."""

from __future__ import annotations

from mcp_bench.servers import errors
from mcp_bench.servers.contracts import JSON
from mcp_bench.servers.errors import BenchError


class RemoteFailureError(BenchError):
    """Code in the worker raised an error that is not a BenchError. Its traceback is on stderr."""


def to_wire(error: BaseException) -> dict[str, JSON]:
    if isinstance(error, BenchError):
        return {"kind": known_kind(type(error)), "text": str(error)}
    return {"kind": RemoteFailureError.__name__, "text": f"{type(error).__name__}: {error}"}


def from_wire(kind: str, text: str) -> BenchError:
    """Return the worker's error, as the same class if that class is defined in `errors`."""
    found = getattr(errors, kind, None)
    if not (isinstance(found, type) and issubclass(found, BenchError)):
        found = RemoteFailureError
    error = found.__new__(found)  # skips __init__: some classes build their text from other arguments
    error.args = (text,)
    return error


def known_kind(kind: type[BenchError]) -> str:
    """Return the name of the nearest base class that the other side also has."""
    return next(str(base.__name__) for base in kind.__mro__ if getattr(errors, base.__name__, None) is base)
