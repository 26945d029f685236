"""The middleware stores messages before it passes them on, and changes nothing."""

import itertools
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.types import Message, Receive, Scope, Send

from mcp_bench.bridge.http.frames import Events
from mcp_bench.bridge.http.recorded import Headers, Recorded
from mcp_bench.recorder.frames.body import Body

pytestmark = pytest.mark.unit

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}'
SSE = b'id: 1\r\n\r\nevent: message\r\ndata: {"id":1}\r\n\r\n: keep-alive\r\n\r\ndata: {"id":2}\r\n\r\n'
JSON = b'{"jsonrpc":"2.0","id":1,"result":{}}'
TYPES = {SSE: b"text/event-stream", JSON: b"application/json"}


class Log:
    """An exchange that keeps everything in lists."""

    def __init__(self) -> None:
        self.stored: dict[str, list[Body]] = {"client": [], "server": []}
        self.status: int | None = None
        self.closed = False

    async def store(self, direction: str, bodies: Sequence[Body]) -> None:
        await anyio.lowlevel.checkpoint()
        self.stored[direction] += bodies

    def answered(self, status: int, headers: Headers) -> None:
        self.status = status

    def close(self, left: bool) -> None:
        self.closed = True


def exchange(
    request: list[bytes], response: list[bytes], kind: bytes
) -> tuple[Log, list[bytes], list[bytes]]:
    """Send an exchange through the middleware, and check that every message is stored before it passes."""
    log = Log()
    there: list[bytes] = []
    back: list[bytes] = []
    messages: list[Message] = [
        {"type": "http.request", "body": body, "more_body": more}
        for body, more in zip(request, [True] * (len(request) - 1) + [False], strict=True)
    ]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            back.append(message["body"])
            seen = b"".join(back)
            whole = Events().feed(seen) if kind == TYPES[SSE] else [seen] if seen == JSON else []
            assert log.stored["server"][: len(whole)] == whole, "passed on before it was stored"

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        more = True
        while more:
            message = await receive()
            there.append(message["body"])
            more = message["more_body"]
            if b"".join(there) == CALL:
                assert log.stored["client"] == [CALL], "passed on before it was stored"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Type", kind)]})
        for chunk in response:
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    scope: dict[str, Any] = {"type": "http", "method": "POST", "path": "/mcp/", "headers": []}
    anyio.run(Recorded(app, lambda scope: log, path="/mcp"), scope, receive, send)
    return log, there, back


def pieces(data: bytes) -> st.SearchStrategy[list[bytes]]:
    def cut(places: list[int]) -> list[bytes]:
        bounds = [0, *sorted(places), len(data)]
        return [data[a:b] for a, b in itertools.pairwise(bounds)]

    return st.lists(st.integers(0, len(data)), max_size=5).map(cut)


@given(pieces(CALL), pieces(SSE))
def test_events_are_stored_before_they_pass(request: list[bytes], response: list[bytes]) -> None:
    log, there, back = exchange(request, response, TYPES[SSE])
    assert b"".join(there) == CALL
    assert b"".join(back) == SSE
    assert log.stored == {"client": [CALL], "server": [b'{"id":1}', b'{"id":2}']}
    assert (log.status, log.closed) == (200, True)


@given(pieces(CALL), pieces(JSON))
def test_a_json_answer_is_stored_before_its_end_passes(request: list[bytes], response: list[bytes]) -> None:
    log, there, back = exchange(request, response, TYPES[JSON])
    assert b"".join(there) == CALL
    assert b"".join(back) == JSON
    assert log.stored == {"client": [CALL], "server": [JSON]}


def test_other_paths_are_not_recorded() -> None:
    def refuse(scope: Scope) -> Log:
        pytest.fail("an exchange was opened")

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["passed"] = True

    async def unused(*args: object) -> Message:
        raise AssertionError

    for path in ("/", "/mcp2", "/mcp/x", "/x;/mcp", "/.well-known/oauth-protected-resource/mcp"):
        scope: dict[str, Any] = {"type": "http", "path": path, "headers": []}
        anyio.run(Recorded(app, refuse, path="/mcp"), scope, unused, unused)
        assert scope["passed"]


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "//mcp", "/./mcp//", "/x/../mcp", "/MCP", "/mcp;v=1"])
def test_the_endpoint_is_recorded_however_its_path_is_spelled(path: str) -> None:
    """Many servers take all of these for the same, so a call could pass without being recorded."""
    opened: list[Log] = []

    def open_log(_: Scope) -> Log:
        opened.append(Log())
        return opened[-1]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["path"] == path

    async def unused(*args: object) -> Message:
        raise AssertionError

    scope: dict[str, Any] = {"type": "http", "path": path, "headers": []}
    anyio.run(Recorded(app, open_log, path="/mcp"), scope, unused, unused)
    assert [log.closed for log in opened] == [True]


def test_a_message_that_cannot_be_read_here_does_not_pass() -> None:
    """Servers on aiohttp, among others, decode it, and would run a call that is none in the recording."""
    answers: list[Message] = []

    async def send(message: Message) -> None:
        answers.append(message)

    async def unused(*args: object) -> Message:
        raise AssertionError

    headers = [(b"content-type", b"application/json"), (b"content-encoding", b"gzip")]
    scope: dict[str, Any] = {"type": "http", "path": "/mcp", "headers": headers}
    anyio.run(Recorded(unused, unused, path="/mcp"), scope, unused, send)  # type: ignore[arg-type]
    assert answers[0]["status"] == 415
    assert (b"accept-encoding", b"identity") in answers[0]["headers"]
