"""Rows of JSON: lines, plain or compressed, one document, or Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.files.compression import damage, open_plain
from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError

LINE_BYTES = 512 << 20
"""A line that is longer is no row."""
LINE_PATTERNS = ("*.jsonl", "*.jsonl.gz", "*.jsonl.zst", "*.ndjson", "*.parquet")

_PARQUET = b"PAR1"


def rows(path: Path, read: Callable[[dict[str, Any]], Iterable[Attempt]]) -> Iterator[Row]:
    """Yield the rows of a file of JSON lines or of Parquet; `read` makes attempts of an object.

    Raises:
        RowError: it is neither.
        OSError: it cannot be read.
    """
    for where, load in _loads(path):
        yield Row(where, partial(_read, load, read))


def first(path: Path) -> dict[str, Any]:
    """Return the first row, as far as it is an object; empty where it is not, or cannot be read."""
    try:
        _, load = next(_loads(path))
        return load()
    except (OSError, RowError, StopIteration, ValueError, RecursionError):
        return {}


def parse(data: bytes) -> Any:
    """Parse JSON so that all of it can be written as UTF-8 again: halves of surrogate pairs become `?`.

    Raises:
        RowError: it is no JSON, has numbers that JSON has not, or is no UTF-8.
    """
    try:
        value = json.loads(data, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise RowError(f"not UTF-8 at byte {error.start}") from error
    except RecursionError as error:
        raise RowError("nested too deeply") from error
    except ValueError as error:
        raise RowError(f"not JSON: {error}") from error
    if b"\\ud" in data.lower():
        text = json.dumps(value, ensure_ascii=False)
        value = json.loads(text.encode("utf-8", "replace"))
    return value


def json_object(value: Any, what: str = "the row") -> dict[str, Any]:
    """Return an object.

    Raises:
        RowError: it is something else.
    """
    if not isinstance(value, dict):
        raise RowError(f"{what} is no JSON object")
    return value


def _read(
    load: Callable[[], dict[str, Any]], read: Callable[[dict[str, Any]], Iterable[Attempt]]
) -> list[Attempt]:
    return list(read(load()))


def _loads(path: Path) -> Iterator[tuple[str, Callable[[], dict[str, Any]]]]:
    with path.open("rb") as file:
        is_parquet = file.read(4) == _PARQUET
    if is_parquet:
        from mcp_bench.recorder.files.parquet import read_rows

        try:
            for number, row in enumerate(read_rows(path), start=1):
                # what a column has no value for is left out, as it is in JSON lines
                kept = {name: value for name, value in row.items() if value is not None}
                yield f"row {number}", partial(json_object, kept)
        except ValueError as error:
            raise RowError(str(error)) from error
        return
    number = 0
    try:
        with open_plain(path) as lines:
            for line in iter(lambda: lines.readline(LINE_BYTES), b""):
                number += 1
                if line.strip():
                    yield f"line {number}", partial(_line, line)
    except damage() as error:
        raise RowError(f"damaged behind line {number}: {error}") from error


def _line(line: bytes) -> dict[str, Any]:
    if len(line) >= LINE_BYTES:
        raise RowError(f"longer than {LINE_BYTES >> 20} MiB")
    return json_object(parse(line))


def _no_number(word: str) -> float:
    raise RowError(f"{word} is no JSON number")
