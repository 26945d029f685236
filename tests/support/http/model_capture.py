"""A model proxy in tests: the proxy, the bytes on both sides, and the stored rows."""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from mcp_bench.bridge.model_proxy.capture import ModelCapture
from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support.http.http_peers import LOOPBACK, TIMEOUT, Script, ScriptedServer, post, scripted_server
from tests.support.recorded import begin, planned, run_info

KEY = "dummy-key-0123456789"
LOGIN = f"Authorization: Bearer {KEY}"
REQUEST = b'{"model": "m", "stream": true, "temperature": 0.5, "tools": [{}]}'
HEAD = {"id": "c1", "object": "chat.completion.chunk", "model": "m-1"}
FINISH = {**HEAD, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


def event(text: str) -> bytes:
    chunk = {**HEAD, "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
    return b"data: %s\n\n" % json.dumps(chunk).encode()


END = b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(FINISH).encode()


@dataclass
class Captured:
    capture: ModelCapture
    folder: Path

    @property
    def port(self) -> int:
        return int(self.capture.base_url.split(":")[2].split("/")[0])

    @property
    def path(self) -> str:
        return "/" + self.capture.base_url.split("/", 3)[3]

    def ask(self, body: bytes = REQUEST, *headers: str, path: str = "/chat/completions") -> bytes:
        return post(self.port, body, LOGIN, *headers, path=self.path + path)

    def rows(self, query: str = "select * from model_calls order by id") -> list[dict[str, Any]]:
        path = self.folder / "recordings.db"
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            return [dict(row) for row in db.execute(query)]


@contextlib.asynccontextmanager
async def capturing(upstream: str, root: Path) -> AsyncGenerator[Captured]:
    """Run the model proxy of one episode until the block ends."""
    with anyio.fail_after(TIMEOUT), RunFolder.create(run_info(), root=root) as run:
        episode = begin(run, planned())
        with ModelCapture(episode, upstream, run.recording) as capture:
            capture.root = os.getppid()  # the test is the agent
            async with anyio.create_task_group() as tasks:
                await tasks.start(capture.serve)
                yield Captured(capture, run.path)
                tasks.cancel_scope.cancel()


@contextlib.asynccontextmanager
async def connected(captured: Captured) -> AsyncGenerator[anyio.abc.SocketStream]:
    async with await anyio.connect_tcp(LOOPBACK, captured.port) as stream:
        yield stream


async def receive_until(stream: anyio.abc.SocketStream, part: bytes, data: bytes = b"") -> bytes:
    while part not in data:
        data += await stream.receive()
    return data


async def receive_all(stream: anyio.abc.SocketStream, data: bytes = b"") -> bytes:
    with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError):
        while True:
            data += await stream.receive()
    return data


def unchunked(data: bytes) -> bytes:
    """Return the body of a chunked response."""
    rest, body = data.partition(b"\r\n\r\n")[2], b""
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        body, rest = body + rest[: int(size, 16)], rest[int(size, 16) + 2 :]
    return body


def endpoint(server: ScriptedServer) -> str:
    return f"http://{LOOPBACK}:{server.port}/v1"


async def whole_exchange(
    root: Path, *said: bytes, headers: tuple[str, ...] = (), body: bytes = REQUEST, path: str = "/chat/completions"
) -> tuple[bytes, bytes, list[dict[str, Any]], Path]:  # fmt: skip
    """Return what the endpoint received, what the agent received, the rows, and the run's folder."""
    received = b""

    async def play(script: Script) -> None:
        nonlocal received
        received = await script.read_request()
        await script.say(*said)

    async with (
        scripted_server(play) as server,
        capturing(endpoint(server), root) as captured,
        connected(captured) as client,
    ):
        await client.send(captured.ask(body, "Connection: close", *headers, path=path))
        answer = await receive_all(client)
    return received, answer, captured.rows(), captured.folder


def answer(body: bytes, *headers: bytes, status: bytes = b"200 OK") -> bytes:
    lines = [
        b"HTTP/1.1 " + status,
        b"content-type: application/json",
        *headers,
        b"content-length: %d" % len(body),
    ]
    return b"\r\n".join([*lines, b"", body])
