"""An episode's wire over HTTP, without a launched agent: the requests come from this process."""

from __future__ import annotations

import math
import os
from pathlib import Path

import anyio
import httpx2
import pytest

from mcp_bench.bridge.tap import traffic
from mcp_bench.bridge.tap.traffic import Traffic
from mcp_bench.bridge.wire.admission import Gate
from mcp_bench.bridge.wire.http import HttpWire
from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support.http.http_peers import TIMEOUT, Script, proxy_run, scripted_server
from tests.support.recorded import begin, line, planned, request

pytestmark = [pytest.mark.anyio, pytest.mark.component]

INITIALIZE = line({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {}})
HELLO = (
    b'HTTP/1.1 200 OK\r\nmcp-session-id: s\r\ncontent-length: 36\r\n\r\n{"jsonrpc":"2.0","id":0,"result":{}}'
)
ERROR_PAGE = (
    b"HTTP/1.1 500 Internal Server Error\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\noops"
)


@pytest.mark.parametrize("agent_leaves", [True, False])
async def test_nobody_waits_for_an_answer_that_cannot_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent_leaves: bool
) -> None:
    """The agent has disconnected, or the server has answered its call with an error page."""
    monkeypatch.setattr(traffic, "IN_FLIGHT_SECONDS", math.inf)
    called, drained = anyio.Event(), anyio.Event()

    async def play(script: Script) -> None:
        while sent := await script.read_request():
            if b"initialize" in sent:
                await script.say(HELLO)
            elif agent_leaves:
                called.set()
                await anyio.sleep_forever()
            else:
                await script.say(ERROR_PAGE)

    async with scripted_server(play) as server:
        with RunFolder.create(proxy_run(), root=tmp_path) as run:
            gate = Gate(begin(run, planned()), "token", run.recording)
            gate.root = os.getppid()
            with gate, HttpWire(gate, server.url, run.recording, Traffic()) as wire:
                async with anyio.create_task_group() as tasks, httpx2.AsyncClient() as agent:
                    await tasks.start(wire.serve)
                    assert wire.server.url is not None
                    await agent.post(wire.server.url, content=INITIALIZE)

                    async def drain() -> None:
                        await wire.drain()
                        drained.set()

                    call = {"content": request(1, "t", {}), "headers": {"mcp-session-id": "s"}}
                    if agent_leaves:
                        async with anyio.create_task_group() as calling:
                            calling.start_soon(lambda: agent.post(wire.server.url, **call))
                            await called.wait()
                            tasks.start_soon(drain)
                            await anyio.wait_all_tasks_blocked()
                            assert not drained.is_set()
                            calling.cancel_scope.cancel()
                    else:
                        assert (await agent.post(wire.server.url, **call)).status_code == 500
                        tasks.start_soon(drain)
                    with anyio.fail_after(TIMEOUT):
                        await drained.wait()
                    assert wire.seen.calls == 1
                    tasks.cancel_scope.cancel()
