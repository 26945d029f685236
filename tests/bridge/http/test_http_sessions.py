"""Which requests of clients the proxy takes for one session, and when that is over."""

import json
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp.client import Client
from mcp_types import Implementation

from tests.support.http.http_peers import Script, echo_server, recording_proxy, scripted_server, sdk_server

pytestmark = [pytest.mark.anyio, pytest.mark.component]

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}'


async def test_a_session_that_its_server_forgot_is_ended(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        while request := await script.read_request():
            if b"initialize" in request:
                body = b'{"jsonrpc":"2.0","id":0,"result":{}}'
                head = b"HTTP/1.1 200 OK\r\nmcp-session-id: s1\r\ncontent-type: application/json\r\n"
            else:
                body = json.dumps({"jsonrpc": "2.0", "id": None, "error": {"code": -32600}}).encode()
                head = b"HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\n"
            await script.say(head + b"content-length: %d\r\n\r\n" % len(body) + body)

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        httpx2.AsyncClient() as client,
    ):
        start = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"c"}}}'
        await client.post(proxy.url, content=start)
        assert proxy.rows("select agent, ended_us from episodes") == [{"agent": "c", "ended_us": None}]
        await client.post(proxy.url, content=CALL, headers={"mcp-session-id": "s1"})
        while proxy.rows("select ended_us from episodes") == [{"ended_us": None}]:
            await anyio.lowlevel.checkpoint()  # the session ends only after the answer
    assert proxy.rows("select outcome from calls") == [{"outcome": "transport_error"}]


async def test_a_server_without_a_stream_for_get_keeps_its_session(tmp_path: Path) -> None:
    """The specification wants 405; some servers answer 404, as for a session that they forgot."""

    async def play(script: Script) -> None:
        while request := await script.read_request():
            status = b"404 Not Found" if request.startswith(b"GET") else b"200 OK"
            body = b'{"jsonrpc":"2.0","id":1,"result":{}}'
            head = b"HTTP/1.1 %s\r\nmcp-session-id: s1\r\ncontent-type: application/json\r\n" % status
            await script.say(head + b"content-length: %d\r\n\r\n" % len(body) + body)

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        httpx2.AsyncClient(headers={"mcp-session-id": "s1"}) as client,
    ):
        for _ in range(2):
            await client.get(proxy.url)
            await client.post(proxy.url, content=CALL)
    assert proxy.rows("select count(*) as n from episodes") == [{"n": 1}]


async def test_a_session_id_that_is_given_again_begins_another_session(tmp_path: Path) -> None:
    """As by a server that counts its sessions, and is started anew behind the proxy."""

    async def play(script: Script) -> None:
        while request := await script.read_request():
            if b"initialize" in request:
                body = b'{"jsonrpc":"2.0","id":0,"result":{}}'
                await script.say(
                    b"HTTP/1.1 200 OK\r\nmcp-session-id: 1\r\ncontent-type: application/json\r\n"
                )
            else:
                body = b""
                await script.say(b"HTTP/1.1 202 Accepted\r\n")
            await script.say(b"content-length: %d\r\n\r\n" % len(body) + body)

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        httpx2.AsyncClient() as client,
    ):
        start = b'{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"clientInfo":{"name":"%s"}}}'
        for name in (b"one", b"two"):
            await client.post(proxy.url, content=start % name)
            await client.post(proxy.url, content=CALL, headers={"mcp-session-id": "1"})
    ended = proxy.rows("select agent, termination, connections from episodes order by id")
    assert ended == [
        {"agent": "one", "termination": "agent_exit", "connections": 1},
        {"agent": "two", "termination": "agent_exit", "connections": 1},
    ]
    assert proxy.rows("select outcome from calls") == [{"outcome": "transport_error"}] * 2


async def test_the_clients_of_a_server_without_sessions_share_an_episode(tmp_path: Path) -> None:
    """Also one that only shakes hands. It has the name of the first one."""
    async with (
        sdk_server(echo_server(), stateless=True, json_response=True) as url,
        recording_proxy(url, tmp_path) as proxy,
    ):
        for name in ("one", "two"):
            async with Client(proxy.url, mode="legacy", client_info=Implementation(name=name, version="7")):
                pass
    (episode,) = proxy.rows("select id, agent, agent_version from episodes")
    assert (episode["agent"], episode["agent_version"]) == ("one", "7")
    answers = proxy.rows("select episode from frames where direction = 'server'")
    assert answers == [{"episode": episode["id"]}] * 2
