"""Parts of a tool result: images reach the agent; the reward and the end of the world do not."""

import json
import math
from collections.abc import Sequence
from typing import Any

import anyio
import pytest
from anyio.abc import TaskStatus
from hypothesis import given, settings
from hypothesis import strategies as st

from mcp_bench.servers.contracts import JSON, Image, ToolResult, ToolSpec
from mcp_bench.servers.mcp_server.server import Connection, WorldSession
from tests.support.notebook import NotebookWorld, tool

pytestmark = [pytest.mark.anyio, pytest.mark.unit]

DOT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
ERAS = ["legacy", "2026-07-28"]


class Scripted(NotebookWorld):
    """Returns the given results, one after the other."""

    def __init__(self, *results: ToolResult | Exception) -> None:
        super().__init__(0)
        self.results = list(results)
        self.seen: list[dict[str, JSON]] = []

    def tools(self) -> Sequence[ToolSpec]:
        free = tool("free", "Take anything.", page={"type": "integer"}).model_copy(update={"checked": False})
        return [tool("look", "Look."), tool("wait", "Wait until cancelled."), free]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        await anyio.lowlevel.checkpoint()
        self.seen.append(arguments)
        if name == "wait":
            await anyio.sleep_forever()
        result = self.results.pop(0)
        if isinstance(result, Exception):
            raise result
        return result


@pytest.mark.parametrize("mode", ERAS)
async def test_images_follow_the_text(mode: str, connect: Any) -> None:
    images = (Image(data=DOT), Image(data="AAAA", media_type="image/svg+xml"))
    world = Scripted(ToolResult(text="a page", images=images), ToolResult(images=images[:1]))
    async with connect(WorldSession(world), mode) as client:
        both = (await client.call_tool("look", {})).content
        alone = (await client.call_tool("look", {})).content
    assert [part.type for part in both] == ["text", "image", "image"]
    assert [(part.data, part.mime_type) for part in both[1:]] == [
        (DOT, "image/png"),
        ("AAAA", "image/svg+xml"),
    ]
    assert [part.type for part in alone] == ["image"]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        (Image(data="not base64!"), "image 1 is not in base64"),
        (Image(data="AAA"), "image 1 is not in base64"),
        (Image(data="\ud800"), "image 1 is not in base64"),
        (Image(data=""), "image 1 is empty"),
        (Image(data=DOT, media_type="text/html"), "media type 'text/html', not image/"),
        (Image(data=DOT, media_type="image/png; x"), "media type 'image/png; x'"),
        (Image(data=DOT, media_type="image/\ud800"), "media type"),
    ],
)
@pytest.mark.parametrize("mode", ERAS)
async def test_bad_image_is_an_error_of_the_tool(
    mode: str, image: Image, words: str, connect: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world = Scripted(ToolResult(text="x", images=(image,), reward=1.0), ToolResult(text="on"))
    session = WorldSession(world)
    async with connect(session, mode) as client:
        result = await client.call_tool("look", {})
        assert result.is_error and words in result.content[0].text
        assert (await client.call_tool("look", {})).content[0].text == "on"
    assert "tool look raised" in caplog.text
    assert session.rewards == [1.0, None]


async def answered(results: list[ToolResult]) -> tuple[bytes, WorldSession]:
    """Return all bytes that a client of each era gets for these results, by both paths to the world."""
    sent: list[bytes] = []
    session = WorldSession(Scripted(*results, *results))

    async def send(line: bytes) -> None:
        sent.append(line)

    for version in ("2025-11-25", "2026-07-28"):
        key = "io.modelcontextprotocol/"
        client = {"name": "c", "version": "1"}
        meta = {f"{key}protocolVersion": version, f"{key}clientCapabilities": {}, f"{key}clientInfo": client}
        modern = version == "2026-07-28"
        shake = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
        async with Connection(session, name="workspace", send=send) as connection:
            method, params = ("tools/list", {"_meta": meta}) if modern else ("initialize", shake)
            lines = [{"id": "open", "method": method, "params": params}]
            call: dict[str, Any] = {"name": "look", "arguments": {}} | ({"_meta": meta} if modern else {})
            lines += [{"id": n, "method": "tools/call", "params": call} for n in range(len(results))]
            for line in lines:
                await connection.receive(json.dumps({"jsonrpc": "2.0", **line}).encode())
                for _ in range(100):
                    await anyio.lowlevel.checkpoint()
    return b"".join(sent), session


REWARDS = st.integers(10**6, 10**9).map(lambda digits: digits + 0.5)
RESULTS = st.builds(
    ToolResult,
    text=st.text("abc ", max_size=5),
    is_error=st.booleans(),
    structured=st.none() | st.just({"page": 1}),
    images=st.sampled_from([(), (Image(data=DOT),)]),
    reward=st.none() | REWARDS,
)


@settings(deadline=None, max_examples=40)
@given(st.lists(RESULTS, min_size=1, max_size=4), RESULTS)
def test_rewards_and_the_end_stay_on_our_side(results: list[ToolResult], last: ToolResult) -> None:
    calls = [*results, last.model_copy(update={"tools_changed": True})]
    wire, session = anyio.run(answered, calls)
    rewards = [result.reward for result in calls]
    assert session.rewards == [*rewards, *rewards]
    assert wire.count(b'"content":') == 2 * len(calls)
    shown = wire.decode().lower()
    assert not any(word in shown for word in ("reward", "done", "tools_changed", "toolschanged"))
    assert not any(f"{reward:.0f}"[:-1] in shown for reward in rewards if reward is not None)


@pytest.mark.parametrize("mode", ERAS)
async def test_calls_after_the_end_are_refused(mode: str, connect: Any) -> None:
    world = Scripted(ToolResult(text="won", done=True, reward=1.0))
    session = WorldSession(world, max_calls=1)
    executed: list[object] = []
    async with connect(session, mode, executed.append) as client:
        assert not session.over.is_set()
        last = await client.call_tool("look", {})
        assert (last.is_error, last.content[0].text) == (False, "won")
        assert session.over.is_set()
        for name in ("look", "nothing"):
            refused = await client.call_tool(name, {})
            assert refused.is_error and refused.content[0].text == "The task is over. Nothing was done."
    assert (session.rewards, session.calls, len(executed)) == ([1.0], 3, 1)
    assert not session.limit_reached.is_set()


async def test_calls_that_wait_for_the_last_one_are_refused() -> None:
    world = Scripted(ToolResult(text="won", done=True))
    session = WorldSession(world)
    texts: list[str] = []

    async def look() -> None:
        texts.append((await session.call("look", {})).text)

    async with anyio.create_task_group() as calls:
        for _ in range(3):
            calls.start_soon(look)
    assert texts == ["won", *["The task is over. Nothing was done."] * 2]
    assert len(world.seen) == 1 == len(session.rewards)


async def wait_for_good(session: WorldSession, *, task_status: TaskStatus[None]) -> None:
    await session.call("wait", {}, task_status.started)


async def test_every_executed_call_has_its_place_in_rewards() -> None:
    world = Scripted(
        ToolResult(reward=0.25), ValueError("torn"), ToolResult(is_error=True, reward=-1.0), ToolResult()
    )
    session = WorldSession(world)
    await session.call("look", {"x": 1})  # refused: it is never executed
    for _ in range(2):
        await session.call("look", {})
    async with anyio.create_task_group() as cancelled:
        await cancelled.start(wait_for_good, session)
        cancelled.cancel_scope.cancel()
    for _ in range(2):
        await session.call("look", {})
    assert session.rewards == [0.25, None, None, -1.0, None]


async def test_a_call_over_its_time_is_cancelled_with_the_limit() -> None:
    session = WorldSession(Scripted(ToolResult(text="on")), call_seconds=0.01)
    with anyio.fail_after(20):
        result = await session.call("wait", {})
    assert result.is_error
    assert result.text == "wait was cancelled: it took longer than 0.01 s, the limit of one call."
    session = WorldSession(Scripted(ToolResult(text="on")), call_seconds=60)
    assert (await session.call("look", {})).text == "on"


@pytest.mark.parametrize("mode", ERAS)
async def test_unchecked_arguments_reach_the_world(mode: str, connect: Any) -> None:
    world = Scripted(*[ToolResult(text="taken")] * 3)
    odd: list[dict[str, JSON]] = [{"page": "three"}, {}, {"pages": [1, {"x": None}]}]
    async with connect(WorldSession(world), mode) as client:
        for arguments in odd:
            assert (await client.call_tool("free", arguments)).content[0].text == "taken"
    assert world.seen == odd
    refused = await WorldSession(world).call("free", {"page": math.nan})
    assert refused.text == "Bad call of free: argument 'page' must be a finite number. Nothing was done."
