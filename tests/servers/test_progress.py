"""Progress of a long call reaches the client that asked for it, and no other."""

import json
import math
import sys
from typing import Any

import pytest
from mcp import Client

from mcp_bench.servers.contracts import JSON, ToolResult, World
from mcp_bench.servers.mcp_server.server import WorldSession, build_server
from mcp_bench.servers.progress import report_progress
from mcp_bench.servers.remote import RemoteBenchmark
from tests.support import NOTEBOOK
from tests.support.notebook import BENCHMARK, NotebookWorld

pytestmark = [pytest.mark.anyio, pytest.mark.component]

TARGET = f"{NOTEBOOK}:BENCHMARK"


async def count(client: Any, times: int) -> list[tuple[float, float | None, str | None]]:
    reports: list[tuple[float, float | None, str | None]] = []

    async def listen(done: float, total: float | None, message: str | None) -> None:
        reports.append((done, total, message))

    result = await client.call_tool("count", {"times": times}, progress_callback=listen)
    assert result.content[0].text == f"counted to {times}"
    assert (await client.call_tool("read", {"page": 1})).is_error  # the connection continues
    return reports


async def connected_to(world: World, mode: str, connect: Any) -> list[tuple[float, float | None, str | None]]:
    async with connect(WorldSession(world), mode) as client:
        return await count(client, 3)


EXPECTED = [(1, 3, "line 1"), (2, 3, "line 2"), (3, 3, "line 3")]


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_client_receives_progress(mode: str, connect: Any) -> None:
    assert await connected_to(await BENCHMARK.open("page-1"), mode, connect) == EXPECTED


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_client_of_the_sdk_server_receives_progress(mode: str) -> None:
    world = await BENCHMARK.open("page-1")
    async with Client(build_server(WorldSession(world), name="workspace"), mode=mode) as client:
        assert await count(client, 3) == EXPECTED


async def test_progress_passes_from_worker_to_client(connect: Any) -> None:
    benchmark = RemoteBenchmark("notebook", TARGET, version="1", python=sys.executable)
    try:
        world = await benchmark.open("page-1")
        assert await connected_to(world, "legacy", connect) == EXPECTED
        assert (await world.call("count", {"times": 2})).text == "counted to 2"  # without a receiver
        # too many for a client: some are dropped, the order is kept, the answer arrives
        async with connect(WorldSession(world)) as client:
            reports = [done for done, _, _ in await count(client, 2000)]
        assert reports and reports == sorted(set(reports))
    finally:
        await benchmark.aclose()


async def test_without_a_token_nothing_is_sent(raw: Any) -> None:
    call = {"name": "count", "arguments": {"times": 3}}
    client = {"name": "raw", "version": "1"}
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    async with raw(WorldSession(await BENCHMARK.open("page-1"))) as connection:
        await connection.ask({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello})
        answer = await connection.ask({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call})
        assert answer["result"]["content"][0]["text"] == "counted to 3", json.dumps(answer)


class Odd(NotebookWorld):
    """Reports what JSON does not have."""

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == "count":
            await report_progress(1, math.inf, "file \udcff.txt")
            await report_progress(math.nan, 3, "no number")
            await report_progress(2, 3, "fine")
        return await super().call(name, {**arguments, "times": 0} if name == "count" else arguments)


@pytest.mark.parametrize("own", [True, False], ids=["connection", "sdk"])
async def test_what_json_does_not_have_is_left_out(own: bool, connect: Any) -> None:
    session = WorldSession(Odd(1))
    server = connect(session) if own else Client(build_server(session, name="workspace"))
    async with server as client:
        assert await count(client, 0) == [(1, None, "file \ufffd.txt"), (2, 3, "fine")]


async def test_progress_outside_a_call_is_dropped() -> None:
    await report_progress(1, 2, "no receiver")
