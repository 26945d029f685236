"""Read Inspect's `.eval` logs without Inspect, in any version that stores one sample per file.

https://inspect.aisi.org.uk/eval-logs.html. A log is a zip archive. Newer versions compress it with zstd,
which Python's zipfile supports from 3.14 on only. The score becomes the partial grade: a number, or one of
Inspect's letters C, P, N and I.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.files.compression import zstd_bytes
from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError, number, partial_grade
from mcp_bench.recorder.importers.conversation import chat_messages, tool_schemas
from mcp_bench.recorder.importers.json_rows import ROW_BYTES, json_object, parse
from mcp_bench.recorder.trajectory import Usage

_ZSTD = 93
_HEADER = "header.json"
_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_ATTACHED = "attachment://"
_LIMITS = {"time": "timeout", "working": "timeout", "message": "max_calls", "turn": "max_calls"}


class InspectLog:
    name = "inspect"
    summary = "Inspect's .eval logs"
    patterns = ("*.eval",)

    def recognises(self, path: Path) -> bool:
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except (OSError, zipfile.BadZipFile):
            return False
        return _HEADER in names or "_journal/start.json" in names

    def rows(self, path: Path) -> Iterator[Row]:
        try:
            with zipfile.ZipFile(path) as archive:
                entries = {entry.filename: entry for entry in archive.infolist()}
                samples = [name for name in sorted(entries) if name.startswith("samples/")]
                # an incomplete log has no header but starts with the same data
                head = next((name for name in (_HEADER, "_journal/start.json") if name in entries), None)
                if head is None or not samples:
                    raise RowError("not an Inspect log: the zip has no header or no samples")
                header = json_object(parse(_entry(path, archive, entries[head])), head)
                for name in samples:
                    yield Row(name, partial(_attempts, header, path, archive, entries[name]))
        except zipfile.BadZipFile as error:
            raise RowError(f"not a readable zip: {error}") from error


def _entry(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of an entry, at most `ROW_BYTES`, whatever size the zip states for it."""
    if entry.compress_type != _ZSTD:
        try:
            with archive.open(entry) as file:
                return _whole(entry, file.read(ROW_BYTES + 1))
        except (EOFError, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError) as error:
            raise RowError(f"{entry.filename} cannot be unpacked: {error}") from error
    with path.open("rb") as file:
        file.seek(entry.header_offset)
        header = file.read(30)  # APPNOTE.TXT, 4.3.7: ends with the lengths of name and extra field
        if len(header) < 30:
            raise RowError("the zip is truncated")
        name, extra = struct.unpack("<HH", header[26:])
        file.seek(name + extra, 1)
        return _whole(entry, zstd_bytes(file.read(min(entry.compress_size, ROW_BYTES)), ROW_BYTES + 1))


def _whole(entry: zipfile.ZipInfo, data: bytes) -> bytes:
    if len(data) > ROW_BYTES:
        raise RowError(f"{entry.filename} unpacks to more than {ROW_BYTES >> 20} MiB")
    return data


def _attempts(
    header: Mapping[str, Any], path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo
) -> list[Attempt]:
    sample = json_object(parse(_entry(path, archive, entry)), "the sample")
    spec = header["eval"]
    messages = _Attachments(sample).put_into(sample["messages"])
    scores = sample.get("scores") or {}
    values = {name: _value(score.get("value")) for name, score in scores.items()}
    grade = partial_grade(next((value for value in values.values() if value is not None), None))
    error = sample.get("error")
    limit = (sample.get("limit") or {}).get("type")
    return [
        Attempt(
            messages=chat_messages(messages),
            tools=_tools(sample),
            benchmark=str(spec["task"]),
            task=str(sample["id"]),
            agent=spec.get("solver") or None,
            model=spec.get("model"),
            seed=int(sample.get("epoch") or 1) - 1,
            partial=grade,
            metrics={"scores": {name: score.get("value") for name, score in scores.items()}},
            assertions=[_assertion(name, values[name], score) for name, score in scores.items()],
            usage=_usage(sample.get("model_usage") or {}),
            termination=_LIMITS.get(limit) if limit else None,  # type: ignore[arg-type]
            error=str(error.get("message") or error) if isinstance(error, dict) else None,
            id=sample.get("uuid"),
            started_us=_microseconds(sample.get("started_at")),
        )
    ]


class _Attachments:
    """The long texts of a sample, which Inspect stores once and refers to."""

    def __init__(self, sample: Mapping[str, Any]) -> None:
        self._texts = sample.get("attachments") or {}
        self._left = ROW_BYTES

    def put_into(self, value: Any) -> Any:
        """Replace references with texts. Many references to one text could fill the disk."""
        if isinstance(value, str) and value.startswith(_ATTACHED):
            text = self._texts.get(value.removeprefix(_ATTACHED), value)
            self._left -= len(text)
            if self._left < 0:
                raise RowError(f"with its attachments it has more than {ROW_BYTES >> 20} MiB")
            return text
        if isinstance(value, list):
            return [self.put_into(item) for item in value]
        if isinstance(value, dict):
            return {key: self.put_into(item) for key, item in value.items()}
        return value


def _value(value: Any) -> float | None:
    """Return a score as a number, or the mean of several scores."""
    if isinstance(value, str):
        found = _LETTERS.get(value)
    elif isinstance(value, dict) and value:
        parts = [_value(part) for part in value.values()]
        known = [part for part in parts if part is not None]
        found = sum(known) / len(known) if known else None
    else:
        found = value
    return number(found)


def _assertion(name: str, value: float | None, score: Mapping[str, Any]) -> dict[str, Any]:
    detail = str(score.get("explanation") or "")
    return {"name": name, "passed": value == 1, "detail": detail}


def _tools(sample: Mapping[str, Any]) -> list[Any]:
    """Return the tools of the first model call that offered any."""
    for event in sample.get("events") or []:
        if isinstance(event, dict) and event.get("event") == "model" and event.get("tools"):
            return tool_schemas(_Attachments(sample).put_into(event["tools"]))
    return []


def _usage(by_model: Mapping[str, Any]) -> Usage | None:
    if not by_model:
        return None

    def total(*names: str) -> int:
        return sum(int(usage.get(name) or 0) for usage in by_model.values() for name in names)

    return Usage(
        input_tokens=total("input_tokens", "input_tokens_cache_read", "input_tokens_cache_write"),
        output_tokens=total("output_tokens"),
        cached_tokens=total("input_tokens_cache_read"),
    )


def _microseconds(time: Any) -> int | None:
    return int(datetime.fromisoformat(time).timestamp() * 1_000_000) if isinstance(time, str) else None
