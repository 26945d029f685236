"""Write rows to files one at a time, with bounded memory."""

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
"""Encodes a row for a `RowWriter`. Picklable, so worker processes can run it."""


class RowWriter(Protocol):
    def write(self, encoded: Any) -> None:
        """Write a row encoded by the function from `row_encoder`."""
        ...

    def close(self) -> None:
        """Write buffered rows. The file stays open."""
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
    """Return the function that encodes rows with these columns."""
    if not parquet:
        return json_line
    from mcp_bench.recorder.files.parquet import cells

    return partial(cells, dict(columns))


def row_writer(
    file: io.RawIOBase, columns: Mapping[str, Column], *, parquet: bool, compression: str | None
) -> RowWriter:
    """Return a writer for encoded rows with these columns.

    Raises:
        MissingDependencyError: the package for Parquet or zstd is not installed.
    """
    if not parquet:
        return JsonLines(file, compression)
    from mcp_bench.recorder.files.parquet import Parquet

    return Parquet(file, columns, compression)
