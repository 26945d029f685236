"""Doors, a benchmark with a rule that no prompt says: one knocks before one leaves a parcel.

An agent that knows it solves every task; one that does not gets half of the credit. So a lesson can be worth
something. `mcp-bench improve` is tested on it.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

from mcp_bench.servers.sdk import (
    JSON,
    AssertionResult,
    Grade,
    Reference,
    Replay,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
    UnknownNameError,
    World,
    partial_credit,
)

SIZES = {"train": 12, "dev": 40, "test": 10}
FAMILIES = ("oak", "iron")
DOOR: dict[str, JSON] = {
    "type": "object",
    "properties": {"door": {"type": "string"}},
    "required": ["door"],
    "additionalProperties": False,
}
TOOLS = (
    ToolSpec(name="knock", description="Knock at a door.", input_schema=DOOR),
    ToolSpec(name="leave", description="Leave the parcel at a door.", input_schema=DOOR),
)


def door(task: str) -> str:
    return f"door-{sha256(task.encode()).hexdigest()[:6]}"


class House:
    def __init__(self, task: str) -> None:
        self.door = door(task)
        self.done: list[str] = []

    def tools(self) -> Sequence[ToolSpec]:
        return TOOLS

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if arguments["door"] != self.door:
            return ToolResult(text="There is no such door.", is_error=True)
        self.done.append(name)
        return ToolResult(text="Done.")

    async def grade(self, answer: str) -> Grade:
        left = "leave" in self.done
        knocked = "knock" in self.done and (not left or self.done.index("knock") < self.done.index("leave"))
        checks = (
            AssertionResult(name="left", passed=left),
            AssertionResult(name="knocked-first", passed=knocked and left),
        )
        strict = left and knocked
        return Grade(
            partial=partial_credit(checks, strict=strict),
            strict=strict,
            assertions=checks,
            grader_version="1",
        )

    async def snapshot(self) -> JSON:
        return list[JSON](self.done)

    async def close(self) -> None:
        pass


class Doors:
    name = "doors"
    version = "1"
    summary = "Leave parcels at doors (a fixture)."
    replay: Replay = "exact"
    replay_ignores: tuple[str, ...] = ()

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        if split not in (None, "all", *SIZES):
            raise UnknownNameError("split", str(split), ["all", *SIZES])
        names = [
            f"{FAMILIES[number % 2]}.1.{one}.{number}"
            for one in (SIZES if split in (None, "all") else [str(split)])
            for number in range(SIZES[one])
        ]
        yield from map(self.task, names[:limit])

    def task(self, task_id: str) -> Task:
        parts = task_id.split(".")
        if len(parts) != 4 or parts[2] not in SIZES or not parts[3].isdecimal():
            raise UnknownNameError("task", task_id, [])
        prompt = f"Leave the parcel at {door(task_id)}."
        return Task(id=task_id, benchmark=self.name, prompt=prompt, split=parts[2], domain=parts[0])

    async def open(self, task_id: str, *, seed: int = 0) -> World:
        return House(task_id)

    def tools(self) -> Sequence[ToolSpec]:
        return TOOLS

    def reference(self, task_id: str) -> Reference:
        arguments: dict[str, JSON] = {"door": door(task_id)}
        calls = tuple(ToolCall(name=name, arguments=arguments) for name in ("knock", "leave"))
        return Reference(calls=calls, answer="Done.")

    async def aclose(self) -> None:
        pass


DOORS = Doors()
