"""Rows into files, one after the other: memory holds a few at a time."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

import orjson

from mcp_bench.recorder.files.compression import compressed
from mcp_bench.recorder.formats import Column

Encode = Callable[[Mapping[str, Any]], Any]
"""Makes of a row what its writer takes; it can be pickled, so that another process may do it."""


class RowWriter(Protocol):
    def write(self, encoded: Any) -> None:
        """Write what `row_encoder` made of a row."""
        ...

    def close(self) -> None:
        """Write what is left; the file stays open."""
        ...


class JsonLines:
    def __init__(self, file: io.RawIOBase, compression: str | None) -> None:
        self._stream = compressed(file, compression)

    def write(self, encoded: bytes) -> None:
        self._stream.write(encoded)

    def close(self) -> None:
        self._stream.close()


def json_line(row: Mapping[str, Any]) -> bytes:
    try:
        return orjson.dumps(row, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # integers of more than 64 bits, nesting of more than 254 levels
        line = json.dumps(row, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return line.encode("utf-8") + b"\n"


def row_encoder(columns: Mapping[str, Column], *, parquet: bool) -> Encode:
    """Return what makes rows with these columns ready to be written."""
    if not parquet:
        return json_line
    from mcp_bench.recorder.files.parquet import cells

    return partial(cells, dict(columns))


def row_writer(
    file: io.RawIOBase, columns: Mapping[str, Column], *, parquet: bool, compression: str | None
) -> RowWriter:
    """Return a writer of encoded rows with these columns.

    Raises:
        MissingDependencyError: what Parquet or zstd needs is not installed.
    """
    if not parquet:
        return JsonLines(file, compression)
    from mcp_bench.recorder.files.parquet import Parquet

    return Parquet(file, columns, compression)
