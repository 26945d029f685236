"""Talker, a benchmark with every optional part of the contract: tests serve it from a worker."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mcp_bench.servers.contracts import (
    JSON,
    ChatMessage,
    Image,
    Reference,
    Replay,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
)
from mcp_bench.servers.grading import Grade

NOTHING: dict[str, JSON] = {"type": "object", "properties": {}}


def tool(name: str) -> ToolSpec:
    return ToolSpec(name=name, description=name, input_schema=NOTHING, checked=name != "draw")


class PlainWorld:
    """A world without optional parts, but for what its results hold."""

    def __init__(self) -> None:
        self.table: list[ToolSpec] | None = [tool("draw"), tool("grow"), tool("break")]

    def tools(self) -> Sequence[ToolSpec]:
        if self.table is None:
            raise RuntimeError("no table")
        return self.table

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        match name:
            case "draw":
                return ToolResult(
                    images=(Image(data="AAAA", media_type="image/gif"),), reward=0.25, done=True
                )
            case "grow":
                self.table = [tool("draw"), tool("more")]
                return ToolResult(text="grown", tools_changed=True, reward=-1.0)
        self.table = None
        return ToolResult(text="broken", tools_changed=True)

    async def grade(self, answer: str) -> Grade:
        return Grade(partial=0, strict=False, grader_version="1")

    async def snapshot(self) -> JSON:
        return None

    async def close(self) -> None:
        pass


class TalkingWorld(PlainWorld):
    changes_tools = True

    async def reply(self, said: str) -> str | None:
        return None if said == "bye" else f"you said {said}"

    async def suggest(self) -> ToolCall | str:
        return "over" if self.table is None else ToolCall(name="break", arguments={"x": 1})

    async def grade(self, answer: str, transcript: Sequence[ChatMessage] = ()) -> Grade:
        said = {message.content: len(message.calls) for message in transcript}
        return Grade(partial=0, strict=False, grader_version="1", metrics={**said, "messages": len(said)})


class Talker:
    name = "talker"
    version = "1"
    summary = "Talk"
    replay: Replay = "none"
    replay_ignores = ()

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        return iter([self.task(name) for name in ("plain", "talking")])

    def task(self, task_id: str) -> Task:
        return Task(id=task_id, benchmark=self.name, prompt="Talk.", split="train", domain="talk")

    async def open(self, task_id: str, *, seed: int = 0) -> PlainWorld:
        return TalkingWorld() if task_id == "talking" else PlainWorld()

    def tools(self) -> Sequence[ToolSpec]:
        return PlainWorld().tools()

    def reference(self, task_id: str) -> Reference | None:
        return None

    async def aclose(self) -> None:
        pass


BENCHMARK = Talker()
