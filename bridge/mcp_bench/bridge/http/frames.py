"""Splitters that find frames in the bodies of streamable HTTP while they stream.

A JSON body is one frame. In an SSE stream, the data of each event is one frame (WHATWG HTML, section 9.2.6).
Comments, ids and events without data carry no message.
"""

from __future__ import annotations

from mcp_bench.bridge.tap.pump import Splitter
from mcp_bench.recorder.frames.body import Body, GrowingBody

JSON_TYPE = b"application/json"
SSE_TYPE = b"text/event-stream"
_BOM = b"\xef\xbb\xbf"
_DATA = b"data:"


class Whole:
    """A body that is one frame. Its last chunk must not pass before the frame is stored."""

    def __init__(self) -> None:
        self._body = GrowingBody()

    def feed(self, chunk: bytes) -> list[Body]:
        self._body.add(chunk)
        return []

    def rest(self) -> Body | None:
        return self._body.take() if self._body else None


class Events:
    """An SSE stream. Lines end with LF, CRLF or CR, and a blank line ends the event."""

    def __init__(self) -> None:
        self._data = GrowingBody()
        self._data_lines = 0
        self._head: bytes | None = b""  # first bytes of the line, until its field name is known
        self._is_data = False
        self._first_line = True
        self._after_cr = False

    def feed(self, chunk: bytes) -> list[Body]:
        events: list[Body] = []
        text = chunk[1:] if self._after_cr and chunk.startswith(b"\n") else chunk
        for line in text.splitlines(keepends=True):
            content = line.rstrip(b"\r\n")
            self._grow(content)
            if len(content) < len(line) and (event := self._end_line()) is not None:
                events.append(event)
        if chunk:
            self._after_cr = chunk.endswith(b"\r")
        return events

    def rest(self) -> Body | None:
        """Return the data of an incomplete last event, because a lenient client may act on it."""
        return self._end_line() or self._end_event()

    def _grow(self, content: bytes) -> None:
        if self._head is None:
            if self._is_data:
                self._data.add(content)
            return
        head = self._head + content
        if self._first_line and len(head) >= len(_BOM):
            self._first_line = False
            head = head.removeprefix(_BOM)
        self._head = head
        if self._first_line or len(head) <= len(_DATA):  # the byte after the colon is not here yet
            return
        self._head = None
        self._is_data = head.startswith(_DATA)
        if self._is_data:
            self._begin_data(head[len(_DATA) :].removeprefix(b" "))

    def _begin_data(self, value: bytes) -> None:
        if self._data_lines:
            self._data.add(b"\n")
        self._data_lines += 1
        self._data.add(value)

    def _end_line(self) -> Body | None:
        head, self._head, self._first_line = self._head, b"", False
        if head in (b"data", _DATA):
            self._begin_data(b"")
        return self._end_event() if head == b"" else None

    def _end_event(self) -> Body | None:
        self._data_lines = 0
        return self._data.take() if self._data else None


def splitter_for(status: int, headers: list[tuple[bytes, bytes]]) -> Splitter | None:
    """Return the splitter for a response, or None if it carries no messages.

    Only SSE and JSON carry messages. Error responses of any type are recorded too, because they say why a
    call failed. Content codings are not decoded: the proxy asks its server for none.
    """
    types = [value.partition(b";")[0].strip().lower() for name, value in headers if name == b"content-type"]
    kind = types[0] if types else JSON_TYPE
    if kind == SSE_TYPE:
        return Events()
    return Whole() if kind == JSON_TYPE or kind.endswith(b"+json") or status >= 400 else None
