"""Settings whose fields are options of a command: type, bounds, default and help of each stand here once.

`cli/options.py` makes the options. The annotations are pydantic's, too, for values that come another way.
Commands import this module when they start, so it imports neither.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from mcp_bench.servers.errors import WrongUseError


@dataclass(frozen=True)
class Bounds:
    """Bounds of a number, or the least length of a list, as part of its type."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    min_length: int | None = None

    def __get_pydantic_core_schema__(self, kind: Any, of: Callable[[Any], dict[str, Any]]) -> dict[str, Any]:
        return of(kind) | {name: bound for name, bound in vars(self).items() if bound is not None}


Count = Annotated[int, Bounds(ge=1)]
AboveZero = Annotated[float, Bounds(gt=0)]
Share = Annotated[float, Bounds(ge=0, le=1)]


def option(default: Any, text: str, **details: Any) -> Any:
    """Return a field of a dataclass that is an option.

    Args:
        default: its default; `dict` or `list` for an empty one. A number or a word is also shown in the help.
        text: its help.
        details: `name`, if the option is not called like the field; `known`, the words that it takes; and
            further arguments of `click.option`.
    """
    made: dict[str, Any] = {"default_factory" if default in (dict, list) else "default": default}
    return field(**made, metadata={"help": text, **details})


def check_seed(seed: int) -> None:
    """Check that a seed can be stored.

    Raises:
        WrongUseError: it has more than the 64 bits of a database's integers.
    """
    if not -(2**63) <= seed < 2**63:
        raise WrongUseError(f"seed is {seed}: it should be a number of 64 bits, which can be stored")
