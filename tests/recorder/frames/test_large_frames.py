"""A frame too large for memory is parsed at its top level and stored byte for byte."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.recorder.errors import DiskFullError
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.frames.body import LARGE, GrowingBody, LargeBody
from mcp_bench.recorder.frames.large_frame import _Text, parse_large
from mcp_bench.recorder.runs.run_folder import RunFolder
from tests.support import ROOT
from tests.support.recorded import line, request

pytestmark = pytest.mark.component

TEXTS = st.text(max_size=8) | st.text(alphabet='"\\{}[],:\n', max_size=30)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
IDS = st.integers() | st.floats(allow_nan=False) | TEXTS | st.none()
CALLS = st.fixed_dictionaries(
    {"method": st.sampled_from(["tools/call", "tools/list", "notifications/cancelled", "x"])},
    optional={
        "id": IDS,
        "jsonrpc": VALUES,
        "params": st.fixed_dictionaries(
            {}, optional={"name": VALUES, "arguments": VALUES, "requestId": IDS, "_meta": VALUES}
        )
        | VALUES,
    },
)
RESULTS = st.fixed_dictionaries(
    {"id": IDS},
    optional={
        "error": VALUES,
        "result": st.fixed_dictionaries({"content": VALUES}, optional={"isError": VALUES}) | VALUES,
    },
)
MESSAGES = CALLS | RESULTS | st.dictionaries(TEXTS, VALUES, max_size=3) | st.lists(CALLS, max_size=2)


def large(body: bytes) -> LargeBody:
    growing = GrowingBody(large=1)
    growing.add(body)
    taken = growing.take()
    assert isinstance(taken, LargeBody)
    return taken


def said(frame: jsonrpc.Frame) -> tuple[Any, ...]:
    return (
        frame.kind, frame.method, frame.rpc_id, frame.tool, frame.arguments, frame.outcome, frame.cancels,
    )  # fmt: skip


@pytest.fixture(params=[1, 3, 7, 1 << 16])
def window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Size of the window: small ones put a boundary at every position."""
    monkeypatch.setattr(_Text, "WINDOW", request.param)
    return int(request.param)


@settings(deadline=None, max_examples=60)
@given(message=MESSAGES, indent=st.sampled_from([None, 0, 1]), ascii_only=st.booleans())
def compare(message: object, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(message, indent=indent, ensure_ascii=ascii_only)
    body = text.encode("utf-8", "surrogatepass") + b"\r\n"
    assert said(parse_large(large(body))) == said(jsonrpc.parse(body))


def test_large_and_small_parsing_agree(window: int) -> None:
    compare()


@pytest.mark.parametrize("form", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
def test_another_form_of_unicode_is_read_as_in_a_small_frame(window: int, form: str) -> None:
    body = request(3, "transfer", {"to": "é"}).decode().encode(form)
    assert said(parse_large(large(body))) == said(jsonrpc.parse(body)) != said(jsonrpc.INVALID)


@pytest.mark.parametrize(
    ("members", "outcome"),
    [
        (b'"error":null ,"result":null', "ok"),
        (b'"result":{"isError":true},"error":null', "tool_error"),
        (b'"error":{},"result":{}', "rpc_error"),
        (b'"error":null', "rpc_error"),
    ],
)
def test_a_null_beside_a_result_is_no_error(window: int, members: bytes, outcome: str) -> None:
    body = b'{"id":1,' + members + b"}"
    assert parse_large(large(body)).outcome == jsonrpc.parse(body).outcome == outcome


@settings(deadline=None, max_examples=150)
@given(
    st.binary(min_size=1)
    | st.text(alphabet='{}[]",:\\ \n1ae', min_size=1).map(str.encode)
    | MESSAGES.flatmap(lambda m: st.integers(1, len(line(m))).map(lambda cut: line(m)[:cut]))
)
def survive(body: bytes) -> None:
    frame = parse_large(large(body))
    whole = jsonrpc.parse(body)
    if whole.kind != "invalid" and jsonrpc.loads(body):
        assert said(frame) == said(whole)


def test_parsing_never_raises(window: int) -> None:
    survive()


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'{"id":1,"result":' + b"[" * 10**5, b'"', b'{"a":"\\'])
def test_an_endless_value_is_invalid_or_a_batch(opening: bytes) -> None:
    assert parse_large(large(opening * 100)).kind == ("batch" if opening == b"[" else "invalid")


def test_an_object_with_thousands_of_members_is_invalid() -> None:
    """It would take minutes for each hundred megabytes."""
    end = b'"id":1,"method":"tools/list"}'
    assert parse_large(large(b"{" + b'"":0,' * 10 + end)).kind == "request"
    assert parse_large(large(b"{" + b'"":0,' * 20_000 + end)).kind == "invalid"


def test_deep_nesting_is_parsed() -> None:
    deep = b"[" * 10**6 + b"]" * 10**6
    call = b'{"id":1,"method":"tools/call","params":{"arguments":{"x":' + deep + b'},"name":"t"}}\n'
    frame = parse_large(large(call))
    assert (frame.kind, frame.rpc_id, frame.tool, frame.arguments) == ("request", "1", "t", "null")
    answer = b'{"result":{"content":' + deep + b',"isError":true},"id":1}\n'
    assert parse_large(large(answer)).outcome == "tool_error"


def test_a_call_with_a_long_id_is_still_a_call() -> None:
    name = "n" * 100_000
    call = request(name, name, {"x": "y" * 2_000_000})
    frame = parse_large(large(call))
    assert (frame.is_call, frame.rpc_id, frame.tool) == (True, json.dumps(name), name)


def test_a_growing_body_moves_to_a_file() -> None:
    growing = GrowingBody(large=10)
    for chunk in (b"12345", b"6789", b"0", b"more"):
        growing.add(chunk)
    body = growing.take()
    assert isinstance(body, LargeBody)
    assert (b"".join(body.chunks()), body.size, bool(growing)) == (b"1234567890more", 14, False)
    growing.add(b"next")
    assert growing.take() == b"next"


def test_a_full_disk_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mcp_bench.recorder.frames.body.TemporaryFile", partial(Path("/dev/full").open, "r+b")
    )
    body = large(b"x" * 100)
    with pytest.raises(DiskFullError, match="TMPDIR"):
        body.readable()


def test_a_large_call_and_response_are_recorded(folder: RunFolder, episode: str) -> None:
    store = folder.recording.store_frame
    call, answer = (
        request(1, "big", {"text": "x" * 5_000_000}),
        b'{"id":1,"result":{"isError":true,"c":[]}}\n',
    )
    store(episode, 1, "client", large(call))
    store(episode, 1, "server", large(answer))
    with closing(sqlite3.connect(f"file:{folder.path}/recordings.db?mode=ro", uri=True)) as db:
        assert [bytes(body) for (body,) in db.execute("SELECT body FROM frames ORDER BY id")] == [
            call,
            answer,
        ]
        calls = db.execute("SELECT tool, arguments, outcome FROM calls").fetchall()
    assert calls == [("big", "null", "tool_error")]
    assert folder.recording.recorded_calls(episode)[0].arguments == {}


PUMP = """
import hashlib, sys
sys.path.insert(0, sys.argv[1])
import anyio
from tests.support.recorded import begin, run_info
from mcp_bench.bridge.tap.pump import pump
from mcp_bench.recorder.runs.run_folder import RunFolder

MEGABYTES = int(sys.argv[2])
BLOCK = bytes(32 + i % 2 * 65 if i % 7 else 110 for i in range(1 << 16))
sent, received = hashlib.sha256(), hashlib.sha256()
before = 0

def peak():  # of this program: ru_maxrss begins with its parent's
    return int(open("/proc/self/status").read().split("VmHWM:")[1].split()[0])

class Source:
    async def __aiter__(self):
        head = b'{"jsonrpc":"2.0","id":1,"result":{"isError":false,"content":[{"type":"text","text":"'
        for number in range(-1, MEGABYTES * 16 + 1):
            chunk = head if number < 0 else b'"}]}}\\n' if number == MEGABYTES * 16 else BLOCK
            sent.update(chunk)
            yield chunk

class Sink:
    async def send(self, chunk):
        received.update(chunk)

with RunFolder.create(run_info(id="run_large")) as folder:
    episode = begin(folder, folder.info.plan[0])

    async def main():
        global before
        async def store(bodies):
            frames = await folder.recording.store(episode, 1, "server", bodies)
            assert [frame.outcome for frame in frames] == ["ok"]
        before = peak()
        await pump(Source(), Sink(), store)

    anyio.run(main)
    grown = peak() - before
    connection = folder.recording.writer.connection
    stored = hashlib.sha256()
    with connection.blobopen("frames", "body", 1, readonly=True) as blob:
        while chunk := blob.read(1 << 20):
            stored.update(chunk)
    print(grown // 1024, sent.hexdigest(), received.hexdigest(), stored.hexdigest())
"""


@pytest.mark.parametrize("megabytes", [40, pytest.param(300, marks=pytest.mark.full)])
def test_a_large_frame_passes_with_flat_memory(bench_home: Path, megabytes: int) -> None:
    support = ROOT
    argv = [sys.executable, "-c", PUMP, str(support), str(megabytes)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    grown, sent, received, stored = done.stdout.split()
    print(f"{megabytes} MiB passed; memory grew by {grown} MiB")
    assert sent == received == stored
    assert int(grown) < LARGE / (1 << 20) * 3
