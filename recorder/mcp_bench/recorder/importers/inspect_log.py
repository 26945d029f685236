"""Read Inspect's logs without Inspect: `.eval` and `.json`, in any version that has one sample after another.

https://inspect.aisi.org.uk/eval-logs.html. An `.eval` log is a zip archive with a file for each sample. Newer
versions compress it with zstd, which Python's zipfile supports from 3.14 on only. A `.json` log is one
document, whose samples are read one at a time.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from mcp_bench.recorder.files.compression import zstd_bytes
from mcp_bench.recorder.importers import Row
from mcp_bench.recorder.importers.attempt import Attempt, RowError
from mcp_bench.recorder.importers.inspect_sample import attempt
from mcp_bench.recorder.importers.json_document import members
from mcp_bench.recorder.importers.json_rows import ROW_BYTES, json_object, parse

_DAMAGED = (EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, NotImplementedError, RuntimeError)
"""What unpacking an entry can raise."""
_ZSTD = 93
_HEADER = "header.json"
_START = "_journal/start.json"
_FIRST_MEMBERS = 4
"""Inspect writes `version`, `status` and `eval` first, in this order."""


class InspectLog:
    name = "inspect"
    summary = "Inspect's logs (.eval, .json)"
    patterns = ("*.eval", "[0-9][0-9][0-9][0-9]-[0-9][0-9]-[0-9][0-9]T*_*.json")

    def recognises(self, path: Path) -> bool:
        if path.suffix == ".json":
            return _is_document(path)
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except (OSError, zipfile.BadZipFile):
            return False
        return _HEADER in names or _START in names

    def rows(self, path: Path) -> Iterator[Row]:
        return _document_rows(path) if path.suffix == ".json" else _archive_rows(path)


def _is_document(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            found = dict(islice(members(file, "samples"), _FIRST_MEMBERS))
    except (OSError, RowError):
        return False
    return "version" in found and isinstance(found.get("eval"), dict) and "task" in found["eval"]


def _document_rows(path: Path) -> Iterator[Row]:
    number, spec = 0, None
    with path.open("rb") as file:
        try:
            for name, value in members(file, "samples"):
                if name == "eval":
                    spec = json_object(value, "eval")
                elif name == "samples" and value is not None:
                    if spec is None:
                        raise RowError("not an Inspect log: the samples come before the header")
                    number += 1
                    yield Row(f"sample {number}", partial(_parsed, spec, value))
        except RowError as error:
            raise RowError(f"after sample {number}: {error}" if number else str(error)) from error
    if not number:
        raise RowError("the log has no samples")


def _parsed(spec: Mapping[str, Any], value: Any) -> list[Attempt]:
    return [attempt(spec, json_object(value, "the sample"))]


def _archive_rows(path: Path) -> Iterator[Row]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = {entry.filename: entry for entry in archive.infolist()}
            samples = [name for name in sorted(entries) if name.startswith("samples/")]
            # an incomplete log has no header but starts with the same data
            head = next((name for name in (_HEADER, _START) if name in entries), None)
            if head is None or not samples:
                raise RowError("not an Inspect log: the zip has no header or no samples")
            header = json_object(_document(path, archive, entries[head]), head)
            for name in samples:
                yield Row(name, partial(_unpacked, header, path, archive, entries[name]))
    except zipfile.BadZipFile as error:
        raise RowError(f"not a readable zip: {error}") from error


def _unpacked(
    header: Mapping[str, Any], path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo
) -> list[Attempt]:
    return _parsed(header["eval"], _document(path, archive, entry))


def _document(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Any:
    return parse(_entry(path, archive, entry), nan_is_null=True)


def _entry(path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> bytes:
    """Return the content of an entry, at most `ROW_BYTES`, whatever size the zip states for it."""
    if entry.compress_type != _ZSTD:
        try:
            with archive.open(entry) as file:
                return _whole(entry, file.read(ROW_BYTES + 1))
        except _DAMAGED as error:
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
