"""Parse a frame that is too large for memory: its top level, through a sliding window.

Only the spans of an object's members are located; their values are not built. A frame without a well-formed
top level is `invalid`, and so is one with thousands of members; the inside of skipped values is not checked.
"""

from __future__ import annotations

import codecs
import json
import os
import re
from collections.abc import Iterator
from typing import Any

import anyio

from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import Body, LargeBody

_SPACE = b" \t\r\n"
_PLAIN_ENDS = re.compile(rb'[\s,{}\[\]":]')
_TOKEN = re.compile(rb'\\.|["\[\]{}]', re.DOTALL)
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_OTHERS = bytes(byte for byte in range(256) if byte not in b'"[]{}')
_NAME = 256
"""Longer member names, in bytes, are ignored."""
_SMALL = 1 << 20
"""Longer ids, methods and tool names, in bytes, and longer `result` or `params` are not read whole."""

_MOST_MEMBERS = 10_000
"""Of one object. A message has a handful; millions of empty ones would take half an hour."""

Span = tuple[int, int]


def parse_large(body: LargeBody) -> jsonrpc.Frame:
    """Return the kind, id, method, tool and outcome of a large frame.

    Arguments of more than a mebibyte are returned as `null`, and a batch is not split.

    Raises:
        StorageError: its file cannot be read.
    """
    body = _in_utf_8(body)
    text = _Text(body)
    try:
        start = text.past_space(0)
        if text.at(start, 1) == b"[":
            return jsonrpc.Frame("batch")
        top, end = members(text, start)
        if text.past_space(end) != text.size:
            return jsonrpc.INVALID
        return _frame(text, top)
    except (ValueError, RecursionError):
        return jsonrpc.INVALID


def _in_utf_8(body: LargeBody) -> LargeBody:
    """Return a frame in UTF-8, without a byte-order mark: servers may read other forms, too."""
    encoding = json.detect_encoding(next(body.chunks(), b""))
    if encoding == "utf-8":
        return body
    decoder, plain = codecs.getincrementaldecoder(encoding)("replace"), LargeBody()
    for chunk in body.chunks():
        plain.append(decoder.decode(chunk).encode("utf-8", "replace"))
    plain.append(decoder.decode(b"", final=True).encode("utf-8", "replace"))
    return plain


async def read_frame(body: Body) -> jsonrpc.Frame:
    """Parse a frame; a large one in a thread, so that the event loop goes on."""
    if isinstance(body, LargeBody):
        return await anyio.to_thread.run_sync(parse_large, body)
    return jsonrpc.parse(body)


class _Text:
    """A large body that is read in small pieces, so that memory stays flat and other threads can run."""

    WINDOW = 1 << 16

    def __init__(self, body: LargeBody) -> None:
        self.size = body.size
        self._file = body.readable()
        self._start, self._window = 0, b""

    def at(self, position: int, length: int) -> bytes:
        """Return up to `length` bytes from `position` on."""
        begin = position - self._start
        if begin >= 0 and begin + length <= len(self._window):
            return self._window[begin : begin + length]
        if length > self.WINDOW:
            return b"".join(self._pieces(position, length))
        self._start, self._window = position, os.pread(self._file, self.WINDOW, position)
        return self._window[:length]

    def _pieces(self, position: int, length: int) -> Iterator[bytes]:
        end = min(position + length, self.size)
        while position < end and (piece := os.pread(self._file, end - position, position)):
            position += len(piece)
            yield piece

    def past_space(self, position: int) -> int:
        """Return the position of the next byte that is not white space."""
        length = 16
        while piece := self.at(position, length):
            rest = piece.lstrip(_SPACE)
            position += len(piece) - len(rest)
            if rest:
                break
            length = self.WINDOW
        return position

    def past_value(self, start: int) -> int:
        """Return the end of the JSON value that begins at `start`.

        Raises:
            ValueError: no value begins there, or it does not end.
        """
        first = self.at(start, 1)
        if first in (b'"', b"[", b"{"):
            return self._past_nested(start, is_text=first == b'"')
        position, length = start, 32
        while piece := self.at(position, length):
            end = _PLAIN_ENDS.search(piece)
            position += end.start() if end else len(piece)
            if end:
                break
            length = self.WINDOW
        if position == start:
            raise ValueError("a value is missing")
        return position

    def _past_nested(self, start: int, *, is_text: bool) -> int:
        position, depth, quoted = start + 1, 0 if is_text else 1, is_text
        length = 256
        while piece := self.at(position, length):
            if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
                piece = piece[:-1] or self.at(position, 2)  # keep an escape in one piece
            length = self.WINDOW
            change = _without_end(piece, depth, quoted)
            if change is None:
                found, depth, quoted = _first_end(piece, depth, quoted)
                if found is not None:
                    return position + found
            else:
                depth, quoted = change
            position += len(piece)
        raise ValueError("a value does not end")


def _without_end(piece: bytes, depth: int, quoted: bool) -> tuple[int, bool] | None:
    """Return depth and quotation after `piece`, or None if the value may end in it.

    Works on the whole piece at once, since hundreds of megabytes pass here.
    """
    bare = piece.replace(b"\\\\", b"").replace(b'\\"', b"").translate(_BRACKETS, _OTHERS)
    if depth == 0:  # the value is a string
        return None if b'"' in bare else (0, True)
    parts = bare.split(b'"')
    outside = b"".join(parts[quoted::2])
    quoted ^= len(parts) % 2 == 0
    for _ in range(8):
        outside = outside.replace(b"[]", b"")
    closing = outside.count(b"]")
    return (depth + len(outside) - 2 * closing, quoted) if closing < depth else None


def _first_end(piece: bytes, depth: int, quoted: bool) -> tuple[int | None, int, bool]:
    """Return the end of the value in `piece`, or None, and the depth and quotation there."""
    for token in _TOKEN.finditer(piece):
        byte = token[0]
        if byte == b'"':
            quoted = not quoted
        elif quoted or len(byte) == 2:
            continue
        else:
            depth += 1 if byte in b"[{" else -1
        if depth == 0 and not quoted:
            return token.end(), depth, quoted
    return None, depth, quoted


def members(text: _Text, start: int) -> tuple[dict[str, Span], int]:
    """Return the spans of the member values of the object at `start`, by name, and the object's end.

    Raises:
        ValueError: no object begins there, or it does not end.
    """
    if text.at(start, 1) != b"{":
        raise ValueError("not an object")
    found: dict[str, Span] = {}
    position = text.past_space(start + 1)
    if text.at(position, 1) == b"}":
        return found, position + 1
    for _ in range(_MOST_MEMBERS):
        if text.at(position, 1) != b'"':
            raise ValueError("a member's name is missing")
        named = text.past_value(position)
        colon = text.past_space(named)
        if text.at(colon, 1) != b":":
            raise ValueError("a member has no value")
        begin = text.past_space(colon + 1)
        end = text.past_value(begin)
        if named - position <= _NAME:
            found[str(jsonrpc.loads(text.at(position, named - position)))] = (begin, end)
        position = text.past_space(end)
        following = text.at(position, 1)
        if following == b"}":
            return found, position + 1
        if following != b",":
            raise ValueError("the object does not end")
        position = text.past_space(position + 1)
    raise ValueError("it has too many members")


def _frame(text: _Text, top: dict[str, Span]) -> jsonrpc.Frame:
    small: dict[str, Any] = {
        key: jsonrpc.loads(text.at(a, b - a))
        for key in ("id", "method", "params", "result")
        if key in top and (b := top[key][1]) - (a := top[key][0]) <= _SMALL
    }
    if "method" in small and "params" in top and "params" not in small:
        # the name and id of a large call are enough to identify it
        inner = _inner(text, top["params"])
        small["params"] = {
            key: jsonrpc.loads(text.at(a, b - a)) if b - a <= _SMALL else None
            for key, (a, b) in inner.items()
            if key in ("name", "requestId", "arguments")
        }
    if "result" in top and "result" not in small:
        a, b = _inner(text, top["result"]).get("isError", (0, 0))
        small["result"] = {"isError": b - a == 4 and text.at(a, 4) == b"true"}
    if "error" in top:
        a, b = top["error"]
        small["error"] = None if text.at(a, min(b - a, 5)) == b"null" else {}
    return jsonrpc.message(small)


def _inner(text: _Text, span: Span) -> dict[str, Span]:
    return members(text, span[0])[0] if text.at(span[0], 1) == b"{" else {}
