"""The pump forwards its input unchanged, and stores each line before it forwards the line's end."""

import itertools
from collections.abc import AsyncIterator, Sequence

import anyio
import pytest
from anyio.abc import ObjectStream
from anyio.lowlevel import checkpoint
from anyio.streams.stapled import StapledObjectStream
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.tap.pump import pump
from mcp_bench.recorder.frames.body import Body

pytestmark = pytest.mark.unit

LINES = st.lists(st.binary(max_size=40).map(lambda data: data.replace(b"\n", b"") + b"\n"), max_size=8)


def byte_stream_pair() -> tuple[ObjectStream[bytes], ObjectStream[bytes]]:
    """Return two connected in-memory byte streams. A sender waits until the other side reads."""
    to_right, from_left = anyio.create_memory_object_stream[bytes](0)
    to_left, from_right = anyio.create_memory_object_stream[bytes](0)
    return StapledObjectStream(to_right, from_right), StapledObjectStream(to_left, from_left)


def pumped(chunks: list[bytes]) -> tuple[list[bytes], bytes, list[bool]]:
    """Pump `chunks`. Return what was stored, what arrived, and whether storing came first each time."""
    stored: list[bytes] = []
    arrived = bytearray()
    in_time: list[bool] = []

    async def main() -> None:
        left, into = byte_stream_pair()
        out, right = byte_stream_pair()

        async def store(frames: Sequence[Body]) -> None:
            await checkpoint()
            stored.extend(frame for frame in frames if isinstance(frame, bytes))

        async def feed() -> None:
            for chunk in chunks:
                await left.send(chunk)
            await left.send_eof()

        async def collect() -> None:
            async for chunk in right:
                arrived.extend(chunk)
                whole_lines = arrived[: arrived.rfind(b"\n") + 1]
                in_time.append(b"".join(stored).startswith(whole_lines))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(feed)
            tasks.start_soon(collect)
            await pump(into, out, store)
            await out.aclose()
        for stream in (left, into, right):
            await stream.aclose()

    anyio.run(main)
    return stored, bytes(arrived), in_time


@given(lines=LINES, rest=st.binary(max_size=20).map(lambda data: data.replace(b"\n", b"")), data=st.data())
def test_bytes_arrive_unchanged_however_they_are_split(
    lines: list[bytes], rest: bytes, data: st.DataObject
) -> None:
    whole = b"".join(lines) + rest
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, len(whole) - 1)), max_size=6)))
    edges = [0, *cuts, len(whole)]
    chunks = [whole[a:b] for a, b in itertools.pairwise(edges) if whole[a:b]]
    stored, arrived, in_time = pumped(chunks)
    assert arrived == whole
    assert stored == lines + ([rest] if rest else [])
    assert all(in_time)


def test_nothing_passes_when_storing_fails() -> None:
    async def full(_: Sequence[Body]) -> None:
        raise RuntimeError("disk full")

    async def main() -> None:
        left, into = byte_stream_pair()
        out, right = byte_stream_pair()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(left.send, b"secret\n")
            with pytest.raises(RuntimeError, match="disk full"):
                await pump(into, out, full)
        assert isinstance(right, StapledObjectStream)
        with pytest.raises(anyio.WouldBlock):
            right.receive_stream.receive_nowait()  # type: ignore[attr-defined]
        for stream in (left, into, out, right):
            await stream.aclose()

    anyio.run(main)


@pytest.mark.anyio
async def test_a_line_without_end_ends_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcp_bench.bridge.tap.pump.MAX_LINE", 10)
    stored: list[Body] = []
    arrived: list[bytes] = []

    async def source() -> AsyncIterator[bytes]:
        for chunk in (b"short\n", b"0123456789", b"+", b"too late", b"\n"):
            yield chunk

    class Sink:
        async def send(self, item: bytes, /) -> None:
            arrived.append(item)

    async def store(frames: Sequence[Body]) -> None:
        stored.extend(frames)

    await pump(source(), Sink(), store)
    assert stored == [b"short\n", b"0123456789+"]
    assert arrived == [b"short\n", b"0123456789", b"+"]
