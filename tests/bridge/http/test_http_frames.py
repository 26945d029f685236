"""Frames are complete, however the body is cut into chunks."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.http.frames import Events, Whole, splitter_for
from mcp_bench.bridge.tap.pump import Splitter

pytestmark = pytest.mark.unit

LINES = st.sampled_from(
    [
        b"data: {}",
        b'data:{"a":"\xc3\xa9"}',
        b"data:  two spaces",
        b"data",
        b"data:",
        b"datax: no",
        b": comment",
        b"id: 7",
        b"event: message",
        b"retry: 10",
        b"",
        b"",
        b"unknown",
        b"\x0b\x0c\x85",
        b"dat",
        b" data: x",
    ]
)
ENDINGS = st.sampled_from([b"\n", b"\r\n", b"\r"])
STREAMS = st.lists(st.tuples(LINES, ENDINGS), max_size=12)


def frames(splitter: Splitter, chunks: Sequence[bytes]) -> list[object]:
    found = [body for chunk in chunks for body in splitter.feed(chunk)]
    rest = splitter.rest()
    return found if rest is None else [*found, rest]


def cut(data: bytes, places: list[int]) -> list[bytes]:
    bounds = sorted({min(place, len(data)) for place in places} | {0, len(data)})
    return [data[a:b] for a, b in itertools.pairwise(bounds)]


def parse_as_specified(lines: list[bytes]) -> list[bytes]:
    """Parse lines as the HTML standard does, and also return an incomplete last event."""
    events: list[bytes] = []
    data: list[bytes] = []
    for line in [*lines, b""]:
        name, _, value = line.partition(b":")
        if not line:
            if joined := b"\n".join(data):
                events.append(joined)
            data = []
        elif name == b"data":
            data.append(value.removeprefix(b" "))
    return events


@given(STREAMS, st.lists(st.integers(0, 120)), st.booleans())
def test_events_do_not_depend_on_the_chunks(
    lines: list[tuple[bytes, bytes]], places: list[int], marked: bool
) -> None:
    stream = (b"\xef\xbb\xbf" if marked else b"") + b"".join(line + ending for line, ending in lines)
    # a CR before an empty line that ends in LF counts as one ending, CRLF
    read = stream.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    expected = parse_as_specified(read.split(b"\n")[:-1])
    assert frames(Events(), [stream]) == expected
    assert frames(Events(), cut(stream, places)) == expected
    assert frames(Events(), [stream[i : i + 1] for i in range(len(stream))]) == expected


@given(st.binary(max_size=60), st.lists(st.integers(0, 60)))
def test_a_json_body_is_one_frame(body: bytes, places: list[int]) -> None:
    assert frames(Whole(), cut(body, places)) == ([body] if body else [])


def test_an_event_is_complete_with_its_blank_line_not_later() -> None:
    for ending in (b"\n", b"\r\n", b"\r"):
        events = Events()
        assert events.feed(b"data: 1" + ending + b"data: 2" + ending) == []
        assert events.feed(ending[:1]) == [b"1\n2"]
        assert events.feed(ending[1:] + b"data: 3" + ending) == []
        assert events.rest() == b"3"


def test_responses_that_carry_messages() -> None:
    def chosen(status: int, kind: str | None) -> type | None:
        headers = [] if kind is None else [(b"content-type", kind.encode())]
        splitter = splitter_for(status, headers)
        return None if splitter is None else type(splitter)

    assert chosen(200, "text/event-stream; charset=utf-8") is Events
    assert chosen(200, "Application/JSON; charset=utf-8") is Whole
    assert chosen(200, "application/problem+json") is Whole
    assert chosen(200, None) is Whole
    assert chosen(200, "text/html") is None
    assert chosen(500, "text/html") is Whole
