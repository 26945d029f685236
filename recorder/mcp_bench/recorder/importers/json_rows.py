"""Read rows from JSON lines (plain or compressed) or Parquet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from mcp_bench.recorder.files.compression import damage, open_plain
from mcp_bench.recorder.files.lines import bounded_lines
from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError

ROW_BYTES = 128 << 20
"""Maximum size of a row, unpacked: a line, or a file in an archive."""
LINE_PATTERNS = ("*.jsonl", "*.jsonl.gz", "*.jsonl.zst", "*.ndjson", "*.parquet")

FEW = 100
"""Rows among which a file's format is looked for."""

_PARQUET = b"PAR1"


def rows(path: Path, read: Callable[[dict[str, Any]], Iterable[Attempt]]) -> Iterator[Row]:
    """Yield the rows of a JSON lines or Parquet file. `read` converts a JSON object to attempts.

    Raises:
        RowError: the file is damaged, or in neither format.
        OSError: the file cannot be read.
    """
    for where, load in _loads(path):
        yield Row(where, partial(_read, load, read))


def first(path: Path) -> dict[str, Any]:
    """Return the first row that can be read, of the first few; an empty dict if there is none."""
    try:
        for _, load in islice(_loads(path), FEW):
            with suppress(RowError):
                return load()
    except (OSError, RowError, ValueError, RecursionError, MemoryError):
        pass
    return {}


def fault(path: Path) -> str:
    """Return why the first row cannot be read; an empty text if it can, or if the file has other patterns."""
    if not any(path.match(pattern) for pattern in LINE_PATTERNS):
        return ""
    try:
        for where, load in _loads(path):
            try:
                load()
            except RowError as error:
                return f"{where}: {error}"
            return ""
    except (OSError, RowError) as error:
        return str(error)
    return "it is empty"


def parse(data: bytes, *, nan_is_null: bool = False) -> Any:
    """Parse JSON. Lone surrogates become `?`, so that the value can be written as UTF-8.

    Args:
        data: the text.
        nan_is_null: read NaN and Infinity as null, for tools that write them.

    Raises:
        RowError: the data is not JSON, not UTF-8, or has NaN or Infinity.
    """
    try:
        # from bytes, `json` takes lone surrogates, which no database does
        value = json.loads(data.decode("utf-8-sig"), parse_constant=no_number if nan_is_null else _no_number)
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
    """Return the value if it is a JSON object.

    Raises:
        RowError: it is something else.
    """
    if not isinstance(value, dict):
        raise RowError(f"{what} is not a JSON object")
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
            for number, load in enumerate(read_rows(path, lambda cell: parse(cell.encode())), start=1):
                yield f"row {number}", partial(_without_nulls, load)
        except ValueError as error:
            raise RowError(str(error)) from error
        return
    number = 0
    try:
        with open_plain(path) as lines:
            for line in bounded_lines(lines, ROW_BYTES):
                number += 1
                if line.strip() or len(line) == ROW_BYTES:
                    yield f"line {number}", partial(_line, line)
    except damage() as error:
        raise RowError(f"damaged after line {number}: {error}") from error


def _without_nulls(load: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    # JSON lines leave out missing keys
    return {name: value for name, value in load().items() if value is not None}


def _line(line: bytes) -> dict[str, Any]:
    if len(line) >= ROW_BYTES:
        raise RowError(f"longer than {ROW_BYTES >> 20} MiB")
    return json_object(parse(line))


def no_number(word: str) -> None:
    """Read NaN or Infinity as null."""


def _no_number(word: str) -> float:
    raise RowError(f"{word} is not a JSON number")
