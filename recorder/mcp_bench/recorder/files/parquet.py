"""Parquet files whose nested values are JSON.

Arrow would give all objects of a column the same keys and fill in nulls, so that a call's arguments come
back as another call. Nested values are therefore stored as Arrow's JSON type, with the note in the
schema by which `datasets` (5.0 and later) knows its feature `Json`; other readers see the text.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mcp_bench.recorder.formats import Column
from mcp_bench.servers.errors import BenchError, MissingDependencyError

GROUP_BYTES = 16 << 20
"""Size of a row group: as soon as so much text waits, it is written."""
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
    """One open Parquet file. `compression` is gzip, zstd, or None for Parquet's usual snappy."""

    def __init__(self, file: io.RawIOBase, columns: Mapping[str, Column], compression: str | None) -> None:
        self._arrow, parquet = _pyarrow()
        self._schema = _schema(self._arrow, columns)
        self._writer = parquet.ParquetWriter(file, self._schema, compression=compression or "snappy")
        self._waiting: list[dict[str, Any]] = []
        self._size = 0

    def write(self, encoded: dict[str, Any]) -> None:
        """Write a row as `cells` made it."""
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
    """Return the cells of a row, nested values as texts.

    Raises:
        BenchError: the row has a key that is no column.
    """
    unknown = row.keys() - columns.keys()
    if unknown:
        raise BenchError(
            f"the format has no column for {', '.join(sorted(unknown))}, which Parquet needs: add it to the "
            "format's `columns`, or write JSON lines"
        )
    return {name: _cell(row.get(name), column) for name, column in columns.items()}


def read_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, nested values as they were.

    Raises:
        MissingDependencyError: pyarrow is not installed.
        ValueError: it is no Parquet file.
    """
    arrow, parquet = _pyarrow()
    try:
        with parquet.ParquetFile(path) as file:
            kinds = {field.name: _is_json(field.type) for field in file.schema_arrow}
            for batch in file.iter_batches(batch_size=64):
                for row in batch.to_pylist():
                    yield {name: _value(cell) if kinds[name] else cell for name, cell in row.items()}
    except arrow.ArrowException as error:
        raise ValueError(f"not a Parquet file that can be read: {error}") from error


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


def _value(cell: Any) -> Any:
    if isinstance(cell, list):
        return [_value(item) for item in cell]
    return json.loads(cell) if isinstance(cell, str) else cell


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
            "Parquet needs the Python package pyarrow: pip install 'mcp-bench-kit[parquet]'"
        ) from error
    return pyarrow, pyarrow.parquet
