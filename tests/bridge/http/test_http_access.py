"""Access control, limits, and the end of a listener."""

import contextlib
from functools import partial
from pathlib import Path

import anyio
import httpx2
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from mcp_bench.bridge.http import access
from mcp_bench.bridge.http.access import AccessRules, is_loopback
from mcp_bench.bridge.http.listen import bind, listen, url_host
from mcp_bench.bridge.http.reverse_proxy import ReverseProxy
from mcp_bench.servers.errors import BenchError, WrongUseError
from tests.support.http.http_peers import LOOPBACK, Script, recording_proxy, scripted_server, serving

pytestmark = [pytest.mark.anyio, pytest.mark.system]


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer with the size of the request and the names of its headers."""
    size, message = 0, await receive()
    while message["type"] == "http.request":
        size += len(message["body"])
        if not message["more_body"]:
            names = " ".join(name.decode() for name, _ in scope["headers"])
            await PlainTextResponse(f"{size} {names}")(scope, receive, send)
            return
        message = await receive()


class Front:
    """Access rules that get their port from the first request."""

    def __init__(self, **options: object) -> None:
        self.options = options
        self.rules: AccessRules | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.rules is None:
            self.rules = AccessRules(hello, LOOPBACK, scope["server"][1], **self.options)  # type: ignore[arg-type]
        await self.rules(scope, receive, send)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:{port}"}, 200),
        ({"Host": "[::1]:{port}"}, 200),
        ({"Host": "127.0.0.1"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ({"Origin": "http://127.0.0.1:{port}"}, 200),
        ({"Origin": "http://localhost:{port}"}, 200),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
async def test_host_and_origin(headers: dict[str, str], status: int) -> None:
    async with serving(Front()) as port, httpx2.AsyncClient() as client:
        sent = {name: value.format(port=port) for name, value in headers.items()}
        answer = await client.post(f"http://{LOOPBACK}:{port}/", content=b"1", headers=sent)
    assert answer.status_code == status


@pytest.mark.parametrize(
    ("shown", "status"),
    [
        ([], 401),
        (["Bearer wrong"], 401),
        (["bearer s3cret"], 200),  # the scheme is case-insensitive (RFC 9110, section 11.1)
        (["Basic s3cret"], 401),
        (["Bearer"], 401),
        (["Bearer s3cret", "Bearer s3cret"], 401),
        (["Bearer s3cret"], 200),
    ],
)
async def test_token(shown: list[str], status: int) -> None:
    async with serving(Front(token="s3cret")) as port, httpx2.AsyncClient() as client:
        headers = [("Authorization", value) for value in shown]
        answer = await client.get(f"http://{LOOPBACK}:{port}/", headers=headers)
    assert answer.status_code == status
    assert ("www-authenticate" in answer.headers) == (status == 401)
    assert "authorization" not in answer.text  # the app does not see it


def test_other_addresses_need_a_token() -> None:
    for host in ("0.0.0.0", "::", "192.168.1.7", "box.example", ""):
        with pytest.raises(WrongUseError, match="token"):
            AccessRules(hello, host, 80)
        AccessRules(hello, host, 80, token="t")
    assert [is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "[::1]", "localhost")] == [
        True
    ] * 5


def test_the_url_of_a_listener_leads_to_it() -> None:
    shown = {"127.0.0.1": "127.0.0.1", "::1": "[::1]", "[::1]": "[::1]", "box.example": "box.example"}
    assert {host: url_host(host) for host in shown} == shown
    assert [url_host(host) for host in ("0.0.0.0", "::")] == ["127.0.0.1"] * 2


async def test_a_wildcard_listener_accepts_any_host_with_the_token() -> None:
    rules = AccessRules(hello, "0.0.0.0", 80, token="t")
    async with serving(rules) as port, httpx2.AsyncClient(headers={"Host": "box.example"}) as client:
        url = f"http://{LOOPBACK}:{port}/"
        assert (await client.get(url, headers={"Authorization": "Bearer t"})).status_code == 200
        assert (await client.get(url)).status_code == 401


@pytest.mark.parametrize("declared", [True, False], ids=["content-length", "chunked"])
@pytest.mark.parametrize(("size", "status"), [(1000, 200), (1001, 413), (300_000, 413)])
async def test_body_limit(declared: bool, size: int, status: int) -> None:
    async def chunks():  # type: ignore[no-untyped-def]
        for start in range(0, size, 700):
            yield b"x" * min(700, size - start)

    async with serving(Front(max_body=1000)) as port, httpx2.AsyncClient() as client:
        content = b"x" * size if declared else chunks()
        answer = await client.post(f"http://{LOOPBACK}:{port}/", content=content)
    assert answer.status_code == status
    if status == 200:
        assert answer.text.startswith("1000 ")


async def test_a_client_that_sends_less_than_it_announces_is_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It waits for the answer to a request of which it has sent one byte."""
    monkeypatch.setattr(access, "LINGER_SECONDS", 0.05)
    async with serving(Front(max_body=1000)) as port, await anyio.connect_tcp(LOOPBACK, port) as client:
        await client.send(
            b"POST / HTTP/1.1\r\nHost: %s:%d\r\nContent-Length: 2000\r\n\r\nx" % (LOOPBACK.encode(), port)
        )
        with anyio.fail_after(20):  # the listener would close an idle connection after 30
            answer = await client.receive()
    assert answer.startswith(b"HTTP/1.1 413 ")


async def test_more_connections_than_allowed_are_refused() -> None:
    go_on, waiting = anyio.Event(), anyio.Event()

    async def wait(scope: Scope, receive: Receive, send: Send) -> None:
        waiting.set()
        await go_on.wait()
        await PlainTextResponse("done")(scope, receive, send)

    statuses: list[int] = []
    async with serving(wait, max_connections=2) as port, httpx2.AsyncClient() as client:

        async def get() -> None:
            statuses.append((await client.get(f"http://{LOOPBACK}:{port}/")).status_code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(get)
            await waiting.wait()
            await get()
            go_on.set()
    assert statuses == [503, 200]


async def test_the_end_waits_for_answers_but_not_for_streams() -> None:
    begun: list[str] = []
    both, stream_ended = anyio.Event(), anyio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        begun.append(scope["method"])
        if len(begun) == 2:
            both.set()
        if scope["method"] == "POST":
            await stream_ended.wait()
            await PlainTextResponse("answer")(scope, receive, send)
            return
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await anyio.sleep_forever()
        finally:
            stream_ended.set()

    answers: list[str] = []

    async def request(method: str, port: int) -> None:
        async with httpx2.AsyncClient() as client:
            with contextlib.suppress(httpx2.RemoteProtocolError):
                answers.append((await client.request(method, f"http://{LOOPBACK}:{port}/")).text)

    with anyio.fail_after(20), contextlib.closing(bind(LOOPBACK, 0)) as listener:
        async with anyio.create_task_group() as clients, anyio.create_task_group() as server:
            await server.start(partial(listen, app, listener, drain=15))
            for method in ("GET", "POST"):
                clients.start_soon(request, method, listener.getsockname()[1])
            await both.wait()
            server.cancel_scope.cancel()
    assert answers == ["answer"]


async def test_a_failing_bind_reports_why() -> None:
    with contextlib.closing(bind(LOOPBACK, 0)) as taken, pytest.raises(BenchError, match="in use"):
        bind(LOOPBACK, taken.getsockname()[1])
    with pytest.raises(BenchError, match=r"cannot listen on 192\.0\.2\.1"):
        bind("192.0.2.1", 0)


@pytest.mark.parametrize(
    "url", ["", "mcp", "ftp://127.0.0.1/", "http://", "http:///mcp", "http://h:99999/", "http://u:p@h/mcp"]
)
def test_invalid_urls_are_refused(url: str) -> None:
    with pytest.raises(WrongUseError):
        ReverseProxy(url)


async def test_the_proxy_applies_the_access_rules(tmp_path: Path) -> None:
    async def play(script: Script) -> None:
        while request := await script.read_request():
            assert b"s3cret" not in request
            await script.say(b"HTTP/1.1 204 No Content\r\n\r\n")

    async with (
        scripted_server(play) as server,
        recording_proxy(server.url, tmp_path, token="s3cret") as proxy,
        httpx2.AsyncClient() as client,
    ):
        refused = await client.post(proxy.url, content=b"{}")
        taken = await client.post(proxy.url, content=b"{}", headers={"Authorization": "Bearer s3cret"})
        strange = await client.post(proxy.url, content=b"{}", headers={"Host": "evil.example"})
    assert [answer.status_code for answer in (refused, taken, strange)] == [401, 204, 421]
    assert proxy.bodies("client") == [b"{}"]  # refused requests are not recorded
