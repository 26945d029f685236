"""Read training rows: JSON lines with `messages` and `tools` (export format `trl`), plain or compressed.

This module does not use Arrow. Arrow gives the arguments of every call the keys of all other calls, filled
with nulls, and chat templates print those. Here arguments stay as recorded.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from mcp_bench.recorder.files.compression import damage, open_plain
from mcp_bench.servers.errors import BenchError, WrongUseError
from mcp_bench.servers.terminal.sanitize import sanitize_line

ROLES = ("system", "user", "assistant", "tool")
SHOWN = 10
T = TypeVar("T")


class BrokenRowsError(BenchError):
    """Malformed rows; the text gives file, line and fault of each."""


@dataclass(frozen=True)
class Row:
    """One conversation. `place` is `FILE:LINE`; `task`, the id of its task, or empty."""

    place: str
    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None
    task: str = ""


def read_rows(paths: Iterable[Path]) -> list[Row]:
    """Read all conversations of the files, in order; see `read_objects`."""
    return read_objects(paths, _row)


def read_objects(paths: Iterable[Path], parse: Callable[[str, dict[str, Any]], T]) -> list[T]:
    """Read all rows of the files, in order.

    Args:
        paths: files with a JSON object on each line, plain or compressed.
        parse: makes a row of its place, `FILE:LINE`, and its object, or raises ValueError.

    Raises:
        WrongUseError: a file cannot be read, or there are no rows.
        BrokenRowsError: rows are malformed. All files are read first, to report every malformed row.
    """
    rows, faults = [], []
    names = [str(path) for path in paths]
    for name in names:
        for place, line in _lines(Path(name)):
            try:
                rows.append(parse(place, _object(line)))
            except (ValueError, RecursionError) as error:
                faults.append(sanitize_line(f"{place}: {error}"))
    if faults:
        more = f"\nand {len(faults) - SHOWN} more" if len(faults) > SHOWN else ""
        raise BrokenRowsError(f"{len(faults)} broken rows:\n" + "\n".join(faults[:SHOWN]) + more)
    if not rows:
        raise WrongUseError(
            f"no row in {', '.join(names)}. If nothing passed the export's filter, lower --min-partial or "
            "record more"
        )
    return rows


def _lines(path: Path) -> Iterator[tuple[str, bytes]]:
    number = 0
    try:
        with open_plain(path) as file:
            if path.suffix == ".parquet":
                raise WrongUseError(
                    f"{path} is Parquet, and training reads JSON lines: export the data to a name with .jsonl"
                )
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield f"{path}:{number}", line
    except OSError as error:
        raise WrongUseError(f"cannot read {path}: {error.strerror or error}") from error
    except damage() as error:
        raise WrongUseError(f"cannot read {path} after line {number}: {error}") from error


def _object(line: bytes) -> dict[str, Any]:
    row = json.loads(line, parse_constant=_no_number)
    if not isinstance(row, dict):
        raise ValueError("a row must be an object with messages and tools")
    try:
        json.dumps(row, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise ValueError(
            f"half a character ({half!r}): no tokenizer takes it without the other half"
        ) from None
    return row


def _row(place: str, row: dict[str, Any]) -> Row:
    """Return one row.

    Raises:
        ValueError: the row is malformed; the text says how.
    """
    if "messages" not in row:
        raise ValueError(
            f"no messages (keys: {', '.join(row)}); write it with: mcp-bench export --format trl"
        )
    return conversation(place, row["messages"], row.get("tools"), str(row.get("task") or ""))


def conversation(place: str, messages: object, tools: object, task: str = "") -> Row:
    """Return a row of its messages and tools.

    Raises:
        ValueError: they are malformed; the text says how.
    """
    said, known = _objects("messages", messages), _objects("tools", tools or [])
    if not said:
        raise ValueError("messages is empty")
    for number, message in enumerate(said):
        try:
            _check_message(message)
        except ValueError as error:
            raise ValueError(f"messages[{number}]: {error}") from None
    _check_filled(said, known)
    return Row(place, said, known or None, task)


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is not JSON")


def _objects(key: str, value: object) -> list[dict[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        text = ", not a JSON string" if isinstance(value, str) else ""
        raise ValueError(f"{key} is not a list of objects{text}")
    return value


def _check_message(message: dict[str, Any]) -> None:
    if message.get("role") not in ROLES:
        raise ValueError(f"role is {message.get('role')!r}, not one of {', '.join(ROLES)}")
    for key in ("content", "reasoning_content"):
        if isinstance(message.get(key), list):
            raise ValueError(
                f"{key} is a list of parts, as rows for vision models have it; this trainer reads texts: "
                "export without --images"
            )
        if not isinstance(message.get(key), str | None):
            raise ValueError(f"{key} is not a string")
    weight = message.get("weight", 1)
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1:
        raise ValueError(f"weight is {weight!r}, not a number from 0 to 1")
    for call in _objects("tool_calls", message.get("tool_calls") or []):
        function = call.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise ValueError("a tool call has no function.name")
        if not isinstance(function.get("arguments"), dict):
            raise ValueError(f"arguments of {function['name']} is not an object (templates print it as is)")


def _check_filled(messages: list[dict[str, Any]], tools: list[dict[str, Any]]) -> None:
    """Detect rows that went through Arrow: it gives all schemas, and all calls, the keys of all others."""
    known: dict[str, dict[str, Any]] = {}
    for tool in tools:
        function = tool.get("function", tool)
        parameters = function.get("parameters") if isinstance(function, dict) else None
        properties = parameters.get("properties") if isinstance(parameters, dict) else None
        if isinstance(properties, dict):
            known[str(function.get("name"))] = properties
    for name, properties in known.items():
        if filled := sorted(key for key, schema in properties.items() if schema is None):
            raise ValueError(_rewritten("the schema", name, filled))
    functions = [call["function"] for message in messages for call in message.get("tool_calls") or []]
    alike = len({frozenset(function["arguments"]) for function in functions}) == 1
    if not alike or len({function["name"] for function in functions}) < 2:
        return  # the agent itself passed the null: Arrow gives calls of any two tools the same keys
    everywhere = set().union(*known.values())
    for function in functions:
        name, arguments = function["name"], function["arguments"]
        foreign = everywhere - set(known.get(name, everywhere))
        if filled := sorted(key for key, value in arguments.items() if value is None and key in foreign):
            raise ValueError(_rewritten("a call", name, filled))


def _rewritten(where: str, name: str, filled: list[str]) -> str:
    return (
        f"null arguments of other tools in {where} of {name} ({', '.join(filled)}): the file was probably "
        "rewritten by Arrow, which adds them. Use the original export"
    )
