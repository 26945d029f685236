"""Replay an episode's recorded calls on a fresh world and compare the results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bench.bridge.episode.reply_tool import conversing
from mcp_bench.bridge.harness.world import OWN_TOOLS
from mcp_bench.bridge.interactive.tools import AnsweredWorld
from mcp_bench.recorder.frames import jsonrpc
from mcp_bench.recorder.store.episode_rows import ExecutedCall
from mcp_bench.servers.contracts import JSON, Benchmark, ChatMessage, ToolResult, World
from mcp_bench.servers.grading import Grade
from mcp_bench.servers.grading_call import grade_world
from mcp_bench.servers.host import NO_HOST, Host, open_world
from mcp_bench.servers.mcp_server.tool_result import to_mcp
from mcp_bench.servers.mcp_server.world_session import WorldSession

IGNORED = "(ignored)"
MISSING = "(missing)"


@dataclass(frozen=True, slots=True)
class Difference:
    """A difference between recording and replay.

    `where` is the part that differs. `call` is the call's position in the order of execution, if any.
    """

    what: str
    """`result`, `state` or `grade`."""
    where: str
    then: Any
    now: Any
    call: int | None = None
    tool: str | None = None


class Normal:
    """Normalises values for comparison: leaves out the fields that differ between replays."""

    def __init__(self, ignored: Sequence[str]) -> None:
        """`ignored` are the names of fields to leave out."""
        self._ignored = frozenset(ignored)
        names = "|".join(re.escape(name) for name in ignored)
        self._lines = re.compile(rf"""(?m)^([\s-]*["']?(?:{names})["']?\s*:).*$""") if ignored else None

    def value(self, value: Any) -> Any:
        """Return a JSON value without the ignored fields."""
        if isinstance(value, dict):
            return {
                key: IGNORED if key in self._ignored else self.value(inner) for key, inner in value.items()
            }
        if isinstance(value, list):
            return [self.value(inner) for inner in value]
        return value

    def text(self, text: str) -> Any:
        """Return a tool's text as a normalised value if it is JSON, else without the lines of ignored fields.

        Such a line is `name: value`, as in YAML.
        """
        if self._lines is None:
            return text
        try:
            return self.value(jsonrpc.loads(text.encode("utf-8", "replace")))
        except ValueError:
            return self._lines.sub(rf"\1 {IGNORED}", text)


async def replay(
    benchmark: Benchmark,
    task: str,
    seed: int,
    calls: Sequence[ExecutedCall],
    answer: str,
    *,
    rewards: Mapping[int, float],
    host: Host = NO_HOST,
    transcript: Sequence[ChatMessage] = (),
) -> tuple[list[Difference], Grade, JSON]:
    """Run calls on a fresh world of a task; return the differences, the grade and the final state.

    A call without a recorded result runs, but is not compared. Errors of the benchmark propagate.

    Args:
        rewards: the recorded ones, by the execution number of the call.
        host: what the world can ask.
        transcript: the conversation, for worlds that grade it.
    """
    normal = Normal(benchmark.replay_ignores)
    found: list[Difference] = []
    world = await open_world(benchmark, task, seed=seed, host=host)
    try:
        answered = AnsweredWorld(conversing(world))
        session = WorldSession(answered)
        for call in of_the_world(calls, answered):
            before = len(session.rewards)
            result = await session.call(call.tool, call.arguments)
            if call.result is None:
                continue
            found += result_differences(call, call.result, result, normal)
            then, now = rewards.get(call.number), next(iter(session.rewards[before:]), None)
            if normal.value({"reward": then}) != normal.value({"reward": now}):
                found.append(Difference("result", "reward", then, now, call.number, call.tool))
        return found, await grade_world(world, answer, transcript), await answered.snapshot()
    finally:
        await world.close()


def of_the_world(calls: Sequence[ExecutedCall], world: World) -> list[ExecutedCall]:
    """Return the calls without those that a harness answered."""
    own = {tool.name for tool in world.tools()}
    return [call for call in calls if call.tool not in OWN_TOOLS or call.tool in own]


def result_differences(
    call: ExecutedCall, recorded: dict[str, Any], result: ToolResult, normal: Normal
) -> Iterator[Difference]:
    """Yield the differences between a result and the recorded MCP result object."""
    now = to_mcp(result).model_dump(mode="json", by_alias=True)
    pairs = {
        "isError": (recorded.get("isError", False), now["isError"]),
        "text": (_text(recorded), _text(now)),
    }
    if "structuredContent" in recorded:  # earlier protocol versions leave it out
        pairs["structuredContent"] = (recorded["structuredContent"], now["structuredContent"])
    for where, (before, after) in pairs.items():
        if where == "text":
            same = normal.text(before) == normal.text(after)
        else:
            same = normal.value(before) == normal.value(after)
        if not same:
            yield Difference("result", where, before, after, call.number, call.tool)


def _text(result: dict[str, Any]) -> str:
    blocks = result.get("content")
    if not isinstance(blocks, list):
        return jsonrpc.dumps(blocks)
    texts = [block["text"] if _is_text(block) else jsonrpc.dumps(_given(block)) for block in blocks]
    return jsonrpc.clean("\n".join(texts))


def _given(block: Any) -> Any:
    """Return a block, such as an image, without the fields that have no value: the wire leaves them out."""
    if isinstance(block, dict):
        return {name: block[name] for name in sorted(block) if block[name] is not None}
    return block


def _is_text(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)


def value_differences(then: Any, now: Any, normal: Normal) -> Iterator[tuple[str, Any, Any]]:
    """Yield `(path, then, now)` for the smallest parts that differ between two JSON values."""
    yield from _parts("", normal.value(then), normal.value(now))


def _parts(path: str, then: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(then, dict) and isinstance(now, dict):
        for key in sorted(then.keys() | now.keys()):
            pair = (then.get(key, MISSING), now.get(key, MISSING))
            yield from _parts(f"{path}.{key}" if path else key, *pair)
    elif isinstance(then, list) and isinstance(now, list) and len(then) == len(now):
        for index, (before, after) in enumerate(zip(then, now, strict=True)):
            yield from _parts(f"{path}[{index}]", before, after)
    elif then != now or type(then) is not type(now):
        yield path or "(all)", then, now
