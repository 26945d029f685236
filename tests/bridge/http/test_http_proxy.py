"""Real clients and servers, with the recording proxy between them."""

import json
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server.mcpserver import Context
from mcp_types import Implementation

from tests.support.http.event_store import MemoryEventStore
from tests.support.http.http_peers import (
    Script,
    echo_server,
    recording_proxy,
    scripted_server,
    sdk_server,
)

pytestmark = [pytest.mark.anyio, pytest.mark.component]

ERAS = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])
ME = Implementation(name="tester", version="7")


@ERAS
@pytest.mark.parametrize("as_json", [False, True], ids=["sse", "json"])
async def test_a_call_is_recorded(tmp_path: Path, era: str, as_json: bool) -> None:
    async with (
        sdk_server(echo_server(), json_response=as_json) as url,
        recording_proxy(url, tmp_path) as proxy,
        Client(proxy.url, mode=era, client_info=ME) as client,
    ):
        assert len((await client.list_tools()).tools) == 3
        assert (await client.call_tool("echo", {"text": "hé"})).content[0].text == "hé"
        assert (await client.call_tool("none", {})).is_error
    calls = proxy.rows("select tool, arguments, outcome, connection, episode from calls order by id")
    assert [(call["tool"], call["outcome"]) for call in calls] == [("echo", "ok"), ("none", "tool_error")]
    assert json.loads(calls[0]["arguments"]) == {"text": "hé"}
    assert (calls[0]["connection"] == calls[1]["connection"]) == (era == "legacy")
    (episode,) = proxy.rows("select * from episodes")
    assert (episode["agent"], episode["agent_version"], episode["task"]) == ("tester", "7", "session")
    assert (episode["termination"], episode["invalid"]) == ("agent_exit", None)
    assert {tool["function"]["name"] for tool in json.loads(episode["tools"])} == {
        "echo",
        "repeat",
        "counted",
    }


@ERAS
async def test_progress_comes_in_order_with_its_call(tmp_path: Path, era: str) -> None:
    seen: list[float] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        seen.append(done)

    async with (
        sdk_server(echo_server()) as url,
        recording_proxy(url, tmp_path) as proxy,
        Client(proxy.url, mode=era) as client,
    ):
        result = await client.call_tool("counted", {}, progress_callback=progress)
        assert result.content[0].text == "all"
    assert seen == [1]
    (call,) = proxy.rows("select outcome, request_frame, response_frame from calls")
    (sent,) = proxy.rows("select id from frames where method = 'notifications/progress'")
    assert call["outcome"] == "ok"
    assert call["request_frame"] < sent["id"] < call["response_frame"]


@ERAS
async def test_many_clients_with_equal_ids(tmp_path: Path, era: str) -> None:
    async def work(url: str, name: str) -> None:
        async with Client(url, mode=era, client_info=Implementation(name=name, version="1")) as client:
            for count in range(10):
                text = f"{name}:{count}"
                assert (await client.call_tool("echo", {"text": text})).content[0].text == text

    async with (
        sdk_server(echo_server()) as url,
        recording_proxy(url, tmp_path) as proxy,
        anyio.create_task_group() as tasks,
    ):
        for number in range(8):
            tasks.start_soon(work, proxy.url, f"client{number}")
    calls = proxy.rows(
        "select c.arguments, c.outcome, c.rpc_id, f.body from calls c join frames f on f.id = c.response_frame"
    )
    assert len(calls) == 80
    assert len({call["rpc_id"] for call in calls}) < 80
    for call in calls:
        assert call["outcome"] == "ok"
        result = json.loads(call["body"])["result"]
        assert result["content"][0]["text"] == json.loads(call["arguments"])["text"]
    episodes = proxy.rows("select agent, (select count(*) from calls where episode = e.id) n from episodes e")
    if era == "legacy":
        assert {episode["agent"]: episode["n"] for episode in episodes} == {
            f"client{i}": 10 for i in range(8)
        }
    else:
        assert [episode["n"] for episode in episodes] == [80]


@ERAS
async def test_bodies_of_many_megabytes(tmp_path: Path, era: str) -> None:
    size = 9 << 20  # more than the recorder keeps in memory
    async with (
        # as JSON, because the SDK's client accepts events of at most 1 MiB
        sdk_server(echo_server(), max_request_body_size=64 << 20, json_response=True) as url,
        recording_proxy(url, tmp_path) as proxy,
        Client(proxy.url, mode=era) as client,
    ):
        assert (await client.call_tool("echo", {"text": "u" * size})).content[0].text == "u" * size
        result = await client.call_tool("repeat", {"text": "\n", "times": size // 2})
        assert len(result.content[0].text) == size // 2
    calls = proxy.rows("select tool, outcome, request_frame, response_frame from calls order by id")
    assert [(call["tool"], call["outcome"]) for call in calls] == [("echo", "ok"), ("repeat", "ok")]
    request = next(body for body in proxy.bodies("client") if len(body) > size)
    assert json.loads(request)["params"]["arguments"]["text"] == "u" * size
    assert any(len(body) > size for body in proxy.bodies("server"))


async def test_a_broken_stream_is_resumed_from_its_last_event(tmp_path: Path) -> None:
    handshake = {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "r", "version": "1"},
    }
    go_on = anyio.Event()
    server = echo_server()

    @server.tool()
    async def slow() -> str:
        await go_on.wait()
        return "late"

    def message(method: str, **extra: object) -> bytes:
        return json.dumps({"jsonrpc": "2.0", "method": method, **extra}).encode()

    headers = {"accept": "application/json, text/event-stream", "content-type": "application/json"}
    async with (
        sdk_server(server, event_store=MemoryEventStore(), retry_interval=50) as url,
        recording_proxy(url, tmp_path) as proxy,
        httpx2.AsyncClient(base_url=proxy.url, headers=headers, timeout=20) as client,
    ):
        opened = await client.post("", content=message("initialize", id=0, params=handshake))
        client.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        client.headers["mcp-protocol-version"] = "2025-11-25"
        await client.post("", content=message("notifications/initialized"))
        call = message("tools/call", id=1, params={"name": "slow", "arguments": {}})
        async with client.stream("POST", "", content=call) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("id:"):  # the event id at which to resume
                    last = line.removeprefix("id:").strip()
                    break
        assert proxy.rows("select outcome from calls") == [{"outcome": None}]
        go_on.set()
        async with client.stream("GET", "", headers={"last-event-id": last}) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data:") and "late" in line:
                    break
        assert proxy.rows("select outcome from calls") == [{"outcome": "ok"}]
        gone = await client.delete("")
        assert gone.status_code == 200
    (episode,) = proxy.rows("select termination, connections from episodes")
    assert episode == {"termination": "agent_exit", "connections": 1}


async def test_the_sdk_resumes_by_itself(tmp_path: Path) -> None:
    server = echo_server()

    @server.tool()
    async def cut(ctx: Context) -> str:
        await ctx.close_sse_stream()
        return "after the cut"

    async with (
        sdk_server(server, event_store=MemoryEventStore(), retry_interval=20) as url,
        recording_proxy(url, tmp_path) as proxy,
        Client(streamable_http_client(proxy.url), mode="legacy") as client,
    ):
        assert (await client.call_tool("cut", {})).content[0].text == "after the cut"
    assert proxy.rows("select outcome from calls") == [{"outcome": "ok"}]


async def test_a_path_with_escapes_is_recorded(tmp_path: Path) -> None:
    async with sdk_server(echo_server()) as url:
        named = url.replace("/mcp", "/my%20server/mcp")
        async with recording_proxy(named, tmp_path) as proxy, Client(proxy.url, mode="legacy") as client:
            assert (await client.call_tool("echo", {"text": "x"})).content[0].text == "x"
    assert [call["tool"] for call in proxy.rows("select tool from calls")] == ["echo"]


async def test_the_query_of_a_url_reaches_the_server_alone(tmp_path: Path) -> None:
    received: list[bytes] = []

    async def play(script: Script) -> None:
        received.append((await script.read_request()).partition(b"\r\n")[0])
        await script.say(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")

    async with (
        scripted_server(play) as server,
        recording_proxy(f"{server.url}?apiKey=a%20key", tmp_path) as proxy,
        httpx2.AsyncClient() as client,
    ):
        assert "?" not in proxy.url
        for query in ("", "?x=1"):
            await client.post(proxy.url + query, json={})
    assert received == [f"POST {server.path}?apiKey=a%20key{more} HTTP/1.1".encode() for more in ("", "&x=1")]
