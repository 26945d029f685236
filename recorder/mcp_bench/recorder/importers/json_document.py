"""Read a large JSON object member by member, and one list in it item by item."""

from __future__ import annotations

import codecs
import json
from collections.abc import Iterator
from typing import Any, BinaryIO

from mcp_bench.recorder.importers.attempt import RowError
from mcp_bench.recorder.importers.json_rows import ROW_BYTES, no_number

_CHUNK = 1 << 16
_SPACE = " \t\r\n"
_CUT = 2
"""Characters that can follow what looks like a whole number and belong to it: `1` of `1e+5`."""


def members(file: BinaryIO, listed: str) -> Iterator[tuple[str, Any]]:
    """Yield the members of the object in a file. Memory holds one value at a time.

    The member `listed`, if it is a list, is yielded once for each of its items. NaN and Infinity are null.

    Raises:
        RowError: the file has no JSON object, ends early, or a value is too large.
        OSError: the file cannot be read.
    """
    text = _Text(file)
    text.take("{")
    while text.next() != "}":
        key = str(text.value())
        text.take(":")
        if key == listed and text.next() == "[":
            text.take("[")
            while text.next() != "]":
                yield key, text.value()
                text.take_comma("]")
            text.take("]")
        else:
            yield key, text.value()
        text.take_comma("}")


class _Text:
    """The rest of a file, decoded as far as needed."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._decode = codecs.getincrementaldecoder("utf-8")("strict").decode
        self._scan = json.JSONDecoder(parse_constant=no_number).raw_decode
        self._text, self._at, self._over = "", 0, False

    def next(self) -> str:
        """Return the next character that is no space."""
        while True:
            while self._at < len(self._text):
                if self._text[self._at] not in _SPACE:
                    return self._text[self._at]
                self._at += 1
            if not self._read(_CHUNK):
                raise RowError("the file ends early: it is not a complete JSON document")

    def take(self, sign: str) -> None:
        if (found := self.next()) != sign:
            raise RowError(f"not JSON: {found!r} instead of {sign!r}")
        self._at += 1

    def take_comma(self, end: str) -> None:
        """Take a comma, unless the list or object ends here."""
        if self.next() != end:
            self.take(",")

    def value(self) -> Any:
        self.next()
        while True:
            try:
                value, end = self._scan(self._text, self._at)
            except RecursionError as error:
                raise RowError("nested too deeply") from error
            except ValueError as error:
                if self._read(max(_CHUNK, len(self._text) - self._at)):
                    continue
                raise RowError(f"the file ends early, or is not JSON: {error}") from error
            # a number near the end of what was read may go on
            near = end + _CUT >= len(self._text)
            if near and isinstance(value, int | float) and self._read(_CHUNK):
                continue
            return self._clean(value, end)

    def _clean(self, value: Any, end: int) -> Any:
        """Go on after a value. Lone surrogates become `?`, so that it can be written as UTF-8."""
        raw = self._text[self._at : end].lower()
        self._at = end
        if "\\ud" not in raw:
            return value
        return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))

    def _read(self, size: int) -> bool:
        """Read more; return False at the end of the file."""
        if self._over:
            return False
        data = self._file.read(size)
        self._over = not data
        try:
            more = self._decode(data, self._over)
        except UnicodeDecodeError as error:
            raise RowError("not UTF-8") from error
        self._text, self._at = self._text[self._at :] + more, 0
        if len(self._text) > ROW_BYTES:
            raise RowError(f"a value has more than {ROW_BYTES >> 20} MiB")
        return True
