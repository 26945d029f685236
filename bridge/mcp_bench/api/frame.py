"""Rows that pandas and polars read: a sequence of flat, frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from datetime import datetime
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Generic, TypeVar, Union, get_args, get_origin, get_type_hints, overload

from mcp_bench.servers.errors import MissingDependencyError

if TYPE_CHECKING:
    import pandas
    import polars

Row = TypeVar("Row")

_PANDAS = {
    str: "string",
    int: "Int64",
    float: "Float64",
    bool: "boolean",
    datetime: "datetime64[us, UTC]",
}
"""Nullable dtypes. A column of any other type is of dtype object."""


class Frame(Sequence[Row], Generic[Row]):
    """An immutable sequence of rows of one dataclass.

    `pandas.DataFrame(frame)` and `polars.DataFrame(frame)` work, too. `to_pandas` and `to_polars` also set
    the types of columns without values.
    """

    def __init__(self, kind: type[Row], rows: Iterable[Row]) -> None:
        """Hold `rows`, which are of the dataclass `kind`."""
        self._kind = kind
        self._rows = tuple(rows)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Frame[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Frame[Row]:
        return Frame(self._kind, self._rows[at]) if isinstance(at, slice) else self._rows[at]

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Frame) and self._rows == other._rows

    def __hash__(self) -> int:
        return hash(self._rows)

    def __repr__(self) -> str:
        return f"<{len(self)} rows of {self._kind.__name__}>"

    def _repr_html_(self) -> str | None:
        """Show a table in a notebook, if pandas is there."""
        try:
            shown: str = self[:20].to_pandas().to_html(max_cols=20)
        except MissingDependencyError:
            return None
        more = f"<p>and {len(self) - 20} more rows</p>" if len(self) > 20 else ""
        return shown + more

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(_columns(self._kind))

    def to_pandas(self) -> pandas.DataFrame:
        """Return the rows as a pandas frame with nullable dtypes and UTC timestamps.

        Raises:
            MissingDependencyError: pandas is not installed.
        """
        try:
            import pandas
        except ModuleNotFoundError as error:
            raise MissingDependencyError("to_pandas needs the package pandas: pip install pandas") from error
        made = {
            name: pandas.Series([getattr(row, name) for row in self], dtype=_PANDAS.get(kind, "object"))
            for name, kind in _columns(self._kind).items()
        }
        return pandas.DataFrame(made)

    def to_polars(self) -> polars.DataFrame:
        """Return the rows as a polars frame.

        Raises:
            MissingDependencyError: polars is not installed.
        """
        try:
            import polars
        except ModuleNotFoundError as error:
            raise MissingDependencyError("to_polars needs the package polars: pip install polars") from error
        kinds: dict[Any, Any] = {
            str: polars.String,
            int: polars.Int64,
            float: polars.Float64,
            bool: polars.Boolean,
            datetime: polars.Datetime("us", "UTC"),
        }
        return polars.DataFrame(
            [
                polars.Series(name, [getattr(row, name) for row in self], kinds.get(kind, polars.Object))
                for name, kind in _columns(self._kind).items()
            ]
        )


def _columns(kind: type) -> dict[str, Any]:
    """Return the columns of a dataclass with their types, without None."""
    hints = get_type_hints(kind)
    return {one.name: _plain(hints[one.name]) for one in fields(kind)}


def _plain(hint: Any) -> Any:
    if get_origin(hint) in (Union, UnionType):
        kinds = [part for part in get_args(hint) if part is not NoneType]
        return kinds[0] if len(kinds) == 1 else object
    return hint
