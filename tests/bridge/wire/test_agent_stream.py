"""The byte stream of an admitted connection: every byte, in order, and no more of them than fit."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.wire.agent_stream import READ, AgentStream

pytestmark = pytest.mark.component


@asynccontextmanager
async def connected(begun: bytes = b"") -> AsyncIterator[tuple[AgentStream, socket.socket]]:
    ours, agent = socket.socketpair()
    with ours, agent:
        ours.setblocking(False)
        stream = await AgentStream.over(ours, begun)
        try:
            yield stream, agent
        finally:
            stream.close()
            await checkpoint()  # the transport lets go of the socket in the next round


async def all_of(stream: AgentStream) -> bytes:
    return b"".join([chunk async for chunk in stream])


@given(begun=st.binary(max_size=40), sent=st.lists(st.binary(min_size=1, max_size=400), max_size=8))
def test_every_byte_is_read_in_order(begun: bytes, sent: list[bytes]) -> None:
    async def read() -> None:
        async with connected(begun) as (stream, agent):
            for chunk in sent:
                agent.sendall(chunk)
            agent.shutdown(socket.SHUT_WR)
            assert await all_of(stream) == begun + b"".join(sent)

    anyio.run(read)


@pytest.mark.anyio
async def test_a_slow_reader_slows_the_sender() -> None:
    async with connected() as (stream, agent):
        agent.setblocking(False)
        sent = 0
        with pytest.raises(BlockingIOError):
            for _ in range(4096):
                sent += agent.send(b"x" * 4096)
                await checkpoint()
        assert len(await stream.receive()) <= READ
        agent.close()
        assert sent - 2 * READ <= len(await all_of(stream)) < sent


@pytest.mark.anyio
async def test_a_half_closed_connection_still_gets_answers() -> None:
    async with connected() as (stream, agent):
        agent.shutdown(socket.SHUT_WR)
        assert await all_of(stream) == b""
        await stream.send(b"an answer")
        assert agent.recv(100) == b"an answer"


@pytest.mark.anyio
async def test_an_answer_is_sent_when_the_kernel_has_it() -> None:
    size, received = 1 << 22, 0
    async with connected() as (stream, agent), anyio.create_task_group() as tasks:
        sent = anyio.Event()
        agent.settimeout(120)  # lost bytes fail the test

        async def send() -> None:
            await stream.send(b"y" * size)
            sent.set()

        tasks.start_soon(send)
        while received < size:
            assert not sent.is_set() or size - received < size // 2  # the kernel's buffer is smaller
            received += len(await anyio.to_thread.run_sync(agent.recv, 1 << 16))
        await sent.wait()


@pytest.mark.anyio
async def test_a_gone_agent_breaks_its_answers() -> None:
    async with connected() as (stream, agent), anyio.create_task_group() as tasks:

        async def leave() -> None:
            agent.shutdown(socket.SHUT_RDWR)

        tasks.start_soon(leave)
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send(b"z" * (1 << 24))
        with pytest.raises(anyio.BrokenResourceError):
            await stream.send(b"one more")
