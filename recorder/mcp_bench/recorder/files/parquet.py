"""Parquet files with nested values stored as JSON.

Arrow structs would give all objects of a column the same keys and fill in nulls, which changes the
arguments of calls. Nested values therefore use Arrow's JSON type. Metadata in the schema lets `datasets`
(5.0 and later) load them as its feature `Json`; other readers see JSON text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.servers.errors import BenchError, MissingDependencyError
from mcp_bench.servers.extras import install_extra

GROUP_BYTES = 16 << 20
"""A row group is written once it holds this much text."""
GROUP_ROWS = 1000

_FEATURES: dict[Column, Any] = {
    "string": {"dtype": "string", "_type": "Value"},
    "int": {"dtype": "int64", "_type": "Value"},
    "float": {"dtype": "float64", "_type": "Value"},
    "bool": {"dtype": "bool", "_type": "Value"},
    "json": {"_type": "Json"},
    "json list": {"feature": {"_type": "Json"}, "_type": "List"},
}


class Parquet:
    """An open Parquet file. `compression` is gzip, zstd, or None for Parquet's default, snappy."""

    def __init__(self, file: io.RawIOBase, columns: Mapping[str, Column], compression: str | None) -> None:
        self._arrow, parquet = _pyarrow()
        self._schema = _schema(self._arrow, columns)
        self._writer = parquet.ParquetWriter(file, self._schema, compression=compression or "snappy")
        self._waiting: list[dict[str, Any]] = []
        self._size = 0

    def write(self, encoded: dict[str, Any]) -> None:
        """Write a row that `cells` has encoded."""
        self._waiting.append(encoded)
        self._size += sum(_size(cell) for cell in encoded.values())
        if self._size >= GROUP_BYTES or len(self._waiting) >= GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        if self._waiting:
            self._flush()
        self._writer.close()

    def _flush(self) -> None:
        arrow = self._arrow
        arrays = [
            arrow.array([row[field.name] for row in self._waiting], _stored(arrow, field.type)).cast(
                field.type
            )
            for field in self._schema
        ]
        self._writer.write_table(arrow.Table.from_arrays(arrays, schema=self._schema))
        self._waiting.clear()
        self._size = 0


def cells(columns: Mapping[str, Column], row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the cells of a row, with nested values as JSON text.

    Raises:
        BenchError: the row has a key without a column.
    """
    unknown = row.keys() - columns.keys()
    if unknown:
        raise BenchError(
            f"cannot write Parquet: the format declares no column for {', '.join(sorted(unknown))}. Add it "
            "to the format's `columns`, or write JSON lines"
        )
    return {name: _cell(row.get(name), column) for name, column in columns.items()}


def read_rows(path: Path, decode: Callable[[str], Any]) -> Iterator[Callable[[], dict[str, Any]]]:
    """Yield for each row of a file a function that returns it; it raises what `decode` raises.

    Args:
        path: of the file.
        decode: reads a nested value from its JSON text.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        ValueError: the file is not a readable Parquet file.
    """
    arrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            kinds = {field.name: _is_json(field.type) for field in file.schema_arrow}
            for batch in file.iter_batches(batch_size=64):
                for row in batch.to_pylist():
                    yield partial(_decoded, row, kinds, decode)
    except arrow.ArrowException as error:
        raise ValueError(f"not a readable Parquet file: {error}") from error


def _schema(arrow: Any, columns: Mapping[str, Column]) -> Any:
    types = {
        "string": arrow.string(),
        "int": arrow.int64(),
        "float": arrow.float64(),
        "bool": arrow.bool_(),
        "json": arrow.json_(),
        "json list": arrow.list_(arrow.json_()),
    }
    features = {name: _FEATURES[column] for name, column in columns.items()}
    note = json.dumps({"info": {"features": features}})
    return arrow.schema(
        [(name, types[column]) for name, column in columns.items()], metadata={"huggingface": note}
    )


def _stored(arrow: Any, kind: Any) -> Any:
    if kind == arrow.json_():
        return arrow.string()
    return arrow.list_(arrow.string()) if kind == arrow.list_(arrow.json_()) else kind


def _is_json(kind: Any) -> bool:
    return "json" in str(kind)


def _cell(value: Any, column: Column) -> Any:
    if value is None:
        return None
    if column == "json":
        return _text(value)
    return [_text(item) for item in value] if column == "json list" else value


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def _decoded(
    row: Mapping[str, Any], kinds: Mapping[str, bool], decode: Callable[[str], Any]
) -> dict[str, Any]:
    return {name: _value(cell, decode) if kinds[name] else cell for name, cell in row.items()}


def _value(cell: Any, decode: Callable[[str], Any]) -> Any:
    if isinstance(cell, list):
        return [_value(item, decode) for item in cell]
    return decode(cell) if isinstance(cell, str) else cell


def _size(cell: Any) -> int:
    if isinstance(cell, list):
        return sum(map(len, cell))
    return len(cell) if isinstance(cell, str) else 8


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise MissingDependencyError(
            f"Parquet needs the Python package pyarrow: {install_extra('parquet')}"
        ) from error
    return pyarrow, pyarrow.parquet
