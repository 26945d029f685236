"""The fast path for tool calls gives the same bytes as the SDK's own loop, for any traffic."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage

from mcp_bench.servers.contracts import JSON, Image, ToolResult, ToolSpec
from mcp_bench.servers.mcp_server.hot_call import read_call
from mcp_bench.servers.mcp_server.server import Connection, WorldSession, build_server
from mcp_bench.servers.mcp_server.stream import NotAMessageError, encode, parse
from mcp_bench.servers.progress import report_progress
from tests.support.notebook import NotebookWorld, tool
from tests.support.sample import sampled
from tests.support.sdk_lines import MessageWriter

pytestmark = pytest.mark.contract

VERSIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"]
MODERN = "2026-07-28"
KEY = "io.modelcontextprotocol/"
ENVELOPE = {
    f"{KEY}protocolVersion": MODERN,
    f"{KEY}clientCapabilities": {},
    f"{KEY}clientInfo": {"name": "client", "version": "1"},
}


class Mirror(NotebookWorld):
    """Returns the answer that its arguments specify."""

    def tools(self) -> Sequence[ToolSpec]:
        schema: dict[str, JSON] = {
            "type": "object",
            "properties": {
                "text": {"type": "string"},
                "bad": {"type": "boolean"},
                "data": {},
                "images": {"type": "array", "items": {"type": "string"}},
            },
            "additionalProperties": False,
        }
        return [ToolSpec(name="mirror", description="", input_schema=schema), tool("wait", "Wait.")]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == "wait":
            await anyio.sleep_forever()
        text, data = arguments.get("text", "nothing"), arguments.get("data")
        assert isinstance(text, str)
        await report_progress(1, 2, text)
        await report_progress(2)
        if text == "raise":
            raise ValueError("torn")
        structured = data if isinstance(data, dict) else None
        if text == "nan":
            structured = {"none": float("nan"), "big": 2**70, "up": float("inf"), "lone": "\ud800"}
        drawn = arguments.get("images", [])
        assert isinstance(drawn, list)
        images = tuple(Image(data=str(data), media_type="image/png") for data in drawn)
        bad = bool(arguments.get("bad"))
        return ToolResult(text=text, is_error=bad, structured=structured, images=images, reward=0.5)


async def settled() -> None:
    """Run all tasks until they wait. No task here waits for a thread, a clock or a socket."""
    for _ in range(100):
        await anyio.lowlevel.checkpoint()


class Wire:
    def __init__(self) -> None:
        self.sent: list[bytes] = []

    async def send(self, line: bytes) -> None:
        self.sent.append(line)

    def taken(self) -> list[bytes]:
        taken, self.sent = self.sent, []
        return taken


@asynccontextmanager
async def sdk_only() -> AsyncIterator[Any]:
    wire = Wire()
    server = build_server(WorldSession(Mirror(0)), name="workspace")
    give, take = anyio.create_memory_object_stream[SessionMessage](0)

    async def exchange(line: bytes) -> list[bytes]:
        try:
            await give.send(SessionMessage(parse(line)))
        except NotAMessageError as error:
            await wire.send(encode(error.reply))
        await settled()
        return wire.taken()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(server.run, take, MessageWriter(wire), server.create_initialization_options())  # type: ignore[arg-type]
        yield exchange
        give.close()


@asynccontextmanager
async def ours() -> AsyncIterator[Any]:
    wire = Wire()

    async def exchange(line: bytes) -> list[bytes]:
        await connection.receive(line)
        await settled()
        return wire.taken()

    async with Connection(WorldSession(Mirror(0)), name="workspace", send=wire.send) as connection:
        yield exchange


async def compare(lines: list[bytes]) -> list[bytes]:
    """Pass the same lines to both, each once the previous one is settled; return all answers."""
    answers: list[bytes] = []
    async with sdk_only() as theirs, ours() as mine:
        for line in lines:
            expected = await theirs(line)
            assert await mine(line) == expected, line
            answers += expected
    return answers


def request(rpc_id: object, method: str, params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": rpc_id, "method": method, "params": params}).encode()


def opening(version: str) -> list[bytes]:
    if version == MODERN:
        return [request("open", "tools/list", {"_meta": ENVELOPE})]
    client = {"name": "client", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return [
        request("open", "initialize", params),
        b'{"jsonrpc": "2.0", "method": "notifications/initialized"}',
    ]


def call(
    rpc_id: object, name: str = "mirror", *, envelope: bool, token: object = None, **arguments: Any
) -> bytes:
    meta: dict[str, Any] = dict(ENVELOPE) if envelope else {}
    if token is not None:
        meta["progressToken"] = token
    params = {"name": name, "arguments": arguments} | ({"_meta": meta} if meta else {})
    return request(rpc_id, "tools/call", params)


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
@pytest.mark.anyio
async def test_every_call_takes_the_fast_path_with_same_bytes(version: str) -> None:
    modern = version == MODERN
    calls = [
        call(1, envelope=modern, text="grüß \u2028 \U0001f600 \x00 </script>"),
        call('a"é', envelope=modern, text="", token="t"),
        call(-(2**70), envelope=modern, text="x", token=7),
        call("1", envelope=modern, data={"a": [1.0, None, {"é": 1e300}], "@id@": "@text@"}, text="@text@"),
        call("", envelope=modern, data={}, bad=True),
        call(0, envelope=modern, text="raise"),
        call(3, envelope=modern, text="nan"),
        call(4, "mirrow", envelope=modern),
        call(5, envelope=modern, text=5, more=True),
        call(6, envelope=modern, text="<img>", images=["iVBORw0KGgo=", "AAAA"], data={"up": 1}),
        call('i"', envelope=modern, text="", images=["AAAA"], bad=True),
        call(7, envelope=modern, images=["not base64"]),
    ]
    assert all(read_call(line, version) for line in calls)
    answers = await compare([*opening(version), *calls])
    assert len(answers) == 1 + len(calls) + 2 * 2
    assert b'"lone":"\xef\xbf\xbd"' in answers[-6] and b'"none":null' in answers[-6]
    assert [answer.count(b'"type":"image"') for answer in answers[-3:]] == [2, 1, 0]


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
IMAGES = st.lists(st.binary(max_size=9).map(lambda data: b64encode(data).decode()) | st.text(max_size=4))
# every part of a call, and values to replace it with
META_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "progressToken": st.one_of(st.integers(), st.text(max_size=3), JSON_VALUES),
    "traceparent": JSON_VALUES,
    f"{KEY}protocolVersion": st.sampled_from([MODERN, "2025-11-25", "3000-01-01", 3, None]),
    f"{KEY}clientCapabilities": st.sampled_from([{}, {"roots": {}}, {"x": 1}, None, [], {"roots": 1}]),
    f"{KEY}clientInfo": st.sampled_from([{"name": "c", "version": "1"}, {"name": 1}, None, "c"]),
    f"{KEY}logLevel": st.sampled_from(["debug", "loud", 3]),
    f"{KEY}related-task": st.sampled_from([{"taskId": "1"}, {"taskId": 1}, "1"]),
}
PARAM_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "name": st.one_of(st.text(max_size=5), JSON_VALUES),
    "arguments": st.one_of(
        st.fixed_dictionaries(
            {}, optional={"text": st.text(), "bad": st.booleans(), "data": JSON_VALUES, "images": IMAGES}
        ),
        JSON_VALUES,
    ),
    "_meta": JSON_VALUES,
    "task": st.sampled_from([{}, {"ttl": 1}, 1]),
    "inputResponses": JSON_VALUES,
    "requestState": JSON_VALUES,
    "x": JSON_VALUES,
}
MESSAGE_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "jsonrpc": st.sampled_from(["1.0", 2, None]),
    "id": st.one_of(st.integers(), st.text(max_size=4), st.sampled_from(["7", 1.0, 1.5, None, True, []])),
    "method": st.sampled_from(["tools/list", "ping", "tools/kall", "server/discover", "TOOLS/CALL", 1]),
    "params": JSON_VALUES,
    "x": JSON_VALUES,
    "result": JSON_VALUES,
}


@st.composite
def messages(draw: st.DrawFn, envelope: bool) -> bytes:
    """Draw a call with up to two of its parts changed, added or left out."""
    message = json.loads(call(draw(st.integers()), envelope=envelope, text=draw(st.text())))
    params = message["params"]
    meta = params.setdefault("_meta", {})
    for _ in range(draw(st.integers(0, 2))):
        part, values = draw(
            st.sampled_from([(meta, META_VALUES), (params, PARAM_VALUES), (message, MESSAGE_VALUES)])
        )
        key = draw(st.sampled_from(sorted(values)))
        if draw(st.integers(0, 4)):
            part[key] = draw(values[key])
        else:
            part.pop(key, None)
    return json.dumps(message).encode()


@settings(deadline=None)
@given(st.data())
@pytest.mark.parametrize("version", sampled([*VERSIONS, MODERN], (VERSIONS[-1], MODERN)))
def test_any_traffic_gives_the_same_bytes(version: str, data: st.DataObject) -> None:
    traffic = messages(envelope=version == MODERN)
    lines = data.draw(st.lists(traffic, min_size=8, max_size=16))
    anyio.run(compare, [*opening(version), *lines])


@settings(deadline=None, max_examples=20)
@given(st.booleans(), st.data())
def test_traffic_without_handshake_gives_the_same_bytes(envelope: bool, data: st.DataObject) -> None:
    anyio.run(compare, data.draw(st.lists(messages(envelope=envelope), max_size=6)))


@pytest.mark.parametrize("version", [*VERSIONS, MODERN])
@pytest.mark.anyio
async def test_irregular_calls_give_the_same_bytes(version: str) -> None:
    modern = version == MODERN
    changes: list[tuple[str, Any, Any]] = [
        ("message", "id", True),
        ("message", "id", 1.0),
        ("message", "id", None),
        ("message", "x", 1),
        ("message", "result", {}),
        ("params", "arguments", None),
        ("params", "arguments", []),
        ("params", "name", None),
        ("params", "task", {"ttl": 1}),
        ("params", "task", 1),
        ("params", "_meta", None if modern else ENVELOPE),
        ("meta", "progressToken", True),
        ("meta", "progressToken", 1.5),
        ("meta", "progressToken", {}),
        ("meta", f"{KEY}protocolVersion", MODERN),
        ("meta", f"{KEY}protocolVersion", "3000-01-01"),
        ("meta", f"{KEY}clientCapabilities", []),
        ("meta", f"{KEY}logLevel", 1),
    ]
    lines = []
    for place, key, value in changes:
        message = json.loads(call(1, envelope=modern, text="x"))
        params = message["params"]
        parts = {"message": message, "params": params, "meta": params.setdefault("_meta", {})}
        parts[place][key] = value
        lines.append(json.dumps(message).encode())
    await compare([*opening(version), *lines])


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1], MODERN])
@pytest.mark.anyio
async def test_cancelled_calls_give_the_same_bytes(version: str) -> None:
    modern = version == MODERN

    def cancelled(rpc_id: object) -> bytes:
        params = {"requestId": rpc_id, "reason": "tired"}
        return json.dumps({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}).encode()

    lines = [*opening(version)]
    for rpc_id, cancelled_id in [(7, 7), (8, "8"), ("x", "x"), ("9", 9)]:
        lines += [call(rpc_id, "wait", envelope=modern), cancelled("unknown"), cancelled(True)]
        lines += [cancelled(cancelled_id)] * 2
        lines.append(call(rpc_id, envelope=modern, text="after"))
    # a call that waits for another one; both are cancelled, the waiting one first
    lines += [call(1, "wait", envelope=modern), call(2, envelope=modern, text="second")]
    lines += [cancelled(2), cancelled(1), call(3, envelope=modern, text="third")]
    # calls that are not cancelled are answered when the connection ends
    answers = await compare([*lines, call(4, "wait", envelope=modern), call(5, envelope=modern)])
    texts = [json.loads(answer)["result"]["content"][0]["text"] for answer in answers[1:]]
    assert texts == ["after"] * 4 + ["third"]


@pytest.mark.anyio
async def test_duplicate_keys_and_bad_numbers_give_same_bytes() -> None:
    lines = [
        b'{"jsonrpc":"2.0","id":1,"id":2,"method":"ping","method":"tools/call","params":{"name":"a","name":"mirror"}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mirror","arguments":{"data":NaN}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools\\/call","params":{"name":"mirror","arguments":{}}}',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mirror","arguments":{"text":"\\ud800"}}}',
        b'\t{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mirror","arguments":{}}} \r\n',
        b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"mirror","arguments":{"text":"\xff"}}}',
    ]
    assert len(await compare([*opening("2025-11-25"), *lines])) == 1 + len(lines)
