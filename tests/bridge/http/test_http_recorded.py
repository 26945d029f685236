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

    for path in ("/", "/mcp2", "/mcp/x", "/.well-known/oauth-protected-resource/mcp"):
        scope: dict[str, Any] = {"type": "http", "path": path}
        anyio.run(Recorded(app, refuse, path="/mcp"), scope, unused, unused)
        assert scope["passed"]
