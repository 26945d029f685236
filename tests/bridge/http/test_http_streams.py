"""The proxy when a side is slow, disconnects, or does not speak MCP."""

import contextlib
import socket
from collections.abc import AsyncGenerator
from pathlib import Path

import anyio
import anyio.abc
import httpx2
import pytest

from mcp_bench.bridge.http import reverse_proxy
from tests.support.http.http_peers import LOOPBACK, TIMEOUT, Script, post, recording_proxy, scripted_server

pytestmark = [pytest.mark.anyio, pytest.mark.system]

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'
MEGABYTE = 1 << 20
IN_KERNEL = 40 * MEGABYTE
"""More than the socket buffers of two connections hold."""


def port_of(url: str) -> int:
    return int(url.split(":")[2].split("/")[0])


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncGenerator[anyio.abc.SocketStream]:
    async with await anyio.connect_tcp(LOOPBACK, port_of(url)) as stream:
        yield stream


async def receive_all(stream: anyio.abc.SocketStream) -> bytes:
    data = b""
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            data += await stream.receive()
    return data


async def test_a_disconnecting_client_ends_the_servers_request(tmp_path: Path) -> None:
    left = anyio.Event()

    async def play(script: Script) -> None:
        await script.read_request()
        await script.begin_events()
        await script.chunk(b": working\n\n")
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            await script.stream.receive()
        left.set()

    async with scripted_server(play) as server, recording_proxy(server.url, tmp_path) as proxy:
        async with connected(proxy.url) as client:
            await client.send(post(port_of(proxy.url), CALL))
            await client.receive()
            assert not left.is_set()
        await left.wait()
    assert proxy.rows("select outcome from calls") == [{"outcome": "cancelled"}]


async def test_a_client_that_leaves_with_its_answer_leaves_the_connection_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reverse_proxy, "END_SECONDS", TIMEOUT)
    left, again = anyio.Event(), anyio.Event()
    connections = 0

    async def play(script: Script) -> None:
        nonlocal connections
        connections += 1
        await script.read_request()
        if connections == 1:
            await script.begin_events()
            await script.chunk(b"data: " + ANSWER + b"\n\n")
            await left.wait()
            await script.say(b"0\r\n\r\n")
            await script.read_request()
            again.set()
        await script.say(b"HTTP/1.1 202 Accepted\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")

    async with scripted_server(play) as server, recording_proxy(server.url, tmp_path) as proxy:
        async with connected(proxy.url) as client:
            await client.send(post(port_of(proxy.url), CALL))
            came = b""
            while ANSWER not in came:
                came += await client.receive()
            await client.send_eof()
            await receive_all(client)  # until the proxy has noticed
        left.set()
        while not again.is_set():  # the proxy may need a moment to see the response's end
            async with connected(proxy.url) as client:
                await client.send(post(port_of(proxy.url), NOTE, "Connection: close"))
                await receive_all(client)
    assert proxy.rows("select outcome from calls") == [{"outcome": "ok"}]


async def test_a_client_disconnects_in_the_middle_of_a_request(tmp_path: Path) -> None:
    left = anyio.Event()
    came = anyio.Event()

    async def play(script: Script) -> None:
        with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
            while b"tools" not in script.request:
                script.request += await script.stream.receive()
            came.set()
            await script.stream.receive()
        left.set()

    async with scripted_server(play) as server, recording_proxy(server.url, tmp_path) as proxy:
        async with connected(proxy.url) as client:
            head, _, _ = post(port_of(proxy.url), b"x" * MEGABYTE).partition(b"\r\n\r\n")
            await client.send(head + b"\r\n\r\n" + CALL)
            while not came.is_set():  # the proxy holds back the newest bytes: they may be the last
                await client.send(b" ")
                await anyio.lowlevel.checkpoint()
        await left.wait()
    assert proxy.rows("select * from frames") == []  # no side could act on it


@pytest.mark.parametrize("how", ["in a chunk", "between chunks", "before the end of a JSON body"])
async def test_a_server_that_dies_in_mid_stream(tmp_path: Path, how: str) -> None:
    async def play(script: Script) -> None:
        await script.read_request()
        if how == "before the end of a JSON body":
            head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 48\r\n\r\n"
            await script.say(head + ANSWER[:40])
            return
        await script.begin_events()
        await script.chunk(b'data: {"jsonrpc":"2.0","method":"notifications/message"}\n\n')
        await script.say(b"30\r\ndata: {" if how == "in a chunk" else b"")

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        connected(proxy.url) as client,
    ):
        await client.send(post(port_of(proxy.url), CALL))
        response = await receive_all(client)
    assert response.startswith(b"HTTP/1.1 200 OK")
    assert not response.endswith(b"0\r\n\r\n")  # truncated for the client too
    if how != "before the end of a JSON body":
        assert b"notifications/message" in response
        assert proxy.bodies("server") == [b'{"jsonrpc":"2.0","method":"notifications/message"}']
    assert proxy.rows("select outcome from calls") == [{"outcome": "transport_error"}]


async def test_an_unreachable_server_gives_502(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as closed:
        url = f"http://{LOOPBACK}:{closed.getsockname()[1]}/mcp"
    async with recording_proxy(url, tmp_path) as proxy, httpx2.AsyncClient() as client:
        answer = await client.post(proxy.url, content=CALL)
        assert answer.status_code == 502
        assert answer.headers["content-type"] == "application/json"
        error = answer.json()["error"]
        assert url.removesuffix("/mcp") in error["message"]
        assert proxy.bodies("server") == [answer.content]
    assert proxy.rows("select outcome from calls") == [{"outcome": "transport_error"}]


async def test_a_server_that_hangs_up_without_an_answer(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        await script.read_request()

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        httpx2.AsyncClient() as client,
    ):
        answer = await client.post(proxy.url, content=CALL)
    assert (answer.status_code, answer.json()["id"]) == (502, None)


async def test_no_error_names_the_login_in_a_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is sent with every request, and hidden from clients and from the recording."""

    async def play(script: Script) -> None:
        await script.read_request()
        await script.say(b"gibberish\r\n\r\n")

    async def refused(url: str, root: Path) -> str:
        async with recording_proxy(f"{url}?key=s3cret", root) as proxy, httpx2.AsyncClient() as client:
            answer = await client.post(proxy.url, content=CALL)
            assert proxy.bodies("server") == [answer.content]
        assert answer.status_code == 502
        return answer.text

    async with scripted_server(play) as server:
        said = await refused(server.url, tmp_path / "gibberish")
    assert "Bad status line" in said and "s3cret" not in said

    monkeypatch.setattr(reverse_proxy, "CONNECT_SECONDS", 0.1)
    with socket.create_server((LOOPBACK, 0), backlog=0) as busy:
        url = f"http://{LOOPBACK}:{busy.getsockname()[1]}/mcp"
        with socket.create_connection(busy.getsockname()):  # no other one gets in
            said = await refused(url, tmp_path / "busy")
    assert "no connection within 0.1 seconds" in said and "s3cret" not in said


async def test_a_client_that_does_not_read_holds_the_server_back(tmp_path: Path) -> None:
    total, sent = 100 * MEGABYTE, 0
    whole = anyio.Event()

    async def play(script: Script) -> None:
        nonlocal sent
        await script.read_request()
        await script.begin_events()
        while sent < total:
            await script.chunk(b"data: " + b"x" * (MEGABYTE - 8) + b"\n\n")
            sent += MEGABYTE
        await script.say(b"0\r\n\r\n")
        whole.set()

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        connected(proxy.url) as client,
    ):
        await client.send(post(port_of(proxy.url), CALL, "Connection: close"))
        await client.receive()
        with anyio.move_on_after(1.5):  # without backpressure, all of it would pass in this time
            await whole.wait()
        assert not whole.is_set()
        assert sent < IN_KERNEL
        received = 0
        with contextlib.suppress(anyio.EndOfStream):
            while True:
                received += len(await client.receive(MEGABYTE))
        assert whole.is_set()
        assert received >= total - MEGABYTE
    stored = proxy.rows("select count(*) n, sum(length(body)) size from frames where direction = 'server'")
    assert stored == [{"n": 100, "size": 100 * (MEGABYTE - 8)}]


async def test_a_server_that_does_not_read_holds_the_client_back(tmp_path: Path) -> None:
    total, sent = 64 * MEGABYTE, 0
    go_on = anyio.Event()

    async def play(script: Script) -> None:
        while b"\r\n\r\n" not in script.request:
            script.request += await script.stream.receive(100)
        await go_on.wait()
        left = total - len(script.request.partition(b"\r\n\r\n")[2])
        while left > 0:
            left -= len(await script.stream.receive(MEGABYTE))
        await script.say(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        connected(proxy.url) as client,
        anyio.create_task_group() as tasks,
    ):

        async def upload() -> None:
            nonlocal sent
            head, _, _ = post(port_of(proxy.url), b" " * total).partition(b"\r\n\r\n")
            await client.send(head + b"\r\n\r\n")
            while sent < total:
                await client.send(b" " * MEGABYTE)
                sent += MEGABYTE

        tasks.start_soon(upload)
        with anyio.move_on_after(1.5):
            while sent < total:
                await anyio.lowlevel.checkpoint()
        assert sent < IN_KERNEL
        go_on.set()
        assert (await client.receive()).startswith(b"HTTP/1.1 202 Accepted")
    assert proxy.rows("select direction, length(body) n from frames") == [{"direction": "client", "n": total}]


async def test_the_proxy_changes_only_hop_by_hop_headers(tmp_path: Path) -> None:
    requests: list[bytes] = []

    async def play(script: Script) -> None:
        while True:
            requests.append(await script.read_request())
            here = script.stream.extra(anyio.abc.SocketAttribute.local_port)
            await script.say(
                b"HTTP/1.1 307 Temporary Redirect\r\nLocation: http://127.0.0.1:%d/mcp/?a=%%20b\r\n" % here,
                b"Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nSet-Cookie: a=1\r\nSet-Cookie: b=2\r\n",
                b"X-Odd: \xc3\xa9\r\nContent-Length: 0\r\n\r\n",
            )

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        httpx2.AsyncClient() as client,
    ):
        answer = await client.request(
            "POST", f"{proxy.url}?q=%2F&r", content=CALL,
            headers={"Accept-Encoding": "gzip", "X-Kept": "yes", "Connection": "X-Gone", "X-Gone": "1",
                     "Last-Event-ID": "3", "Authorization": "Bearer of-the-server"},
        )  # fmt: skip
        await client.delete(proxy.url, headers={"Mcp-Session-Id": "unknown"})
    head = requests[0].partition(b"\r\n\r\n")[0].lower().split(b"\r\n")
    assert head[0] == b"post /mcp?q=%2f&r http/1.1"
    assert b"host: 127.0.0.1:%d" % server.port in head
    assert b"accept-encoding: identity" in head
    assert {b"x-kept: yes", b"last-event-id: 3", b"authorization: bearer of-the-server"} <= set(head)
    assert not [line for line in head if line.startswith((b"x-gone", b"connection: x"))]
    assert requests[0].endswith(CALL)
    assert requests[1].startswith(b"DELETE /mcp HTTP/1.1\r\n")
    assert answer.status_code == 307
    assert answer.headers["location"] == "/mcp/?a=%20b"  # must not lead past the proxy
    assert answer.headers.get_list("set-cookie") == ["a=1", "b=2"]
    assert (b"x-odd", b"\xc3\xa9") in [(name.lower(), value) for name, value in answer.headers.raw]
    assert "x-hop" not in answer.headers


async def test_only_error_pages_are_recorded(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        while request := await script.read_request():
            status = b"403 Forbidden" if request.startswith(b"POST") else b"200 OK"
            page = b"<html>no</html>"
            head = b"HTTP/1.1 %s\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n" % status
            await script.say(head + page)

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path) as proxy,
        httpx2.AsyncClient() as client,
    ):
        assert (await client.post(proxy.url, content=CALL)).text == "<html>no</html>"
        assert (await client.get(proxy.url)).text == "<html>no</html>"
        assert (await client.get(proxy.url.replace("/mcp", "/other"))).text == "<html>no</html>"
    frames = proxy.rows("select direction, kind from frames order by id")
    assert [tuple(frame.values()) for frame in frames] == [("client", "request"), ("server", "invalid")]
