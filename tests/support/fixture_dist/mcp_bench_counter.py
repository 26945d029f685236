"""Counter, a benchmark with what a world can have beyond tools and a grade. Each task shows one thing.

- `talk`: a user who asks twice for a number of presses, and then leaves. The third press shows a picture.
- `game`: over after three presses, each with a reward.
- `unsolved`: without a reference.
- `slow`: does not open within its limit.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import anyio

from mcp_bench.servers.sdk import (
    JSON,
    AssertionResult,
    ChatMessage,
    Grade,
    Image,
    Limits,
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

PRESS = ToolSpec(
    name="press",
    description="Press the button.",
    input_schema={"type": "object", "properties": {}, "additionalProperties": False},
)
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
"""A PNG of one point."""
WISHES = ("Two more, please.", "And one more.", None)
WANTED = {"talk": 3, "game": 3, "unsolved": 1, "slow": 1}


class Button:
    def __init__(self, task: str) -> None:
        self.task = task
        self.pressed = 0

    def tools(self) -> Sequence[ToolSpec]:
        return [PRESS]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        self.pressed += 1
        over = self.task == "game" and self.pressed == WANTED["game"]
        return ToolResult(text=f"pressed {self.pressed} times", reward=0.43219876505, done=over)

    async def grade(self, answer: str) -> Grade:
        check = AssertionResult(name="pressed", passed=self.pressed == WANTED[self.task])
        return Grade(
            partial=partial_credit([check], strict=check.passed),
            strict=check.passed,
            assertions=(check,),
            grader_version="1",
        )

    async def snapshot(self) -> JSON:
        return self.pressed

    async def close(self) -> None:
        pass


class Game(Button):
    async def suggest(self) -> ToolCall | str:
        return ToolCall(name="press")


class Talk(Button):
    """The user wants two presses, and once they are done a third one."""

    def __init__(self, task: str) -> None:
        super().__init__(task)
        self.heard: list[str] = []
        self.transcript: list[str] = []

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        result = await super().call(name, arguments)
        shown = (Image(data=PICTURE),) if self.pressed == WANTED["talk"] else ()
        return result.model_copy(update={"images": shown})

    async def reply(self, said: str) -> str | None:
        self.heard.append(said)
        return WISHES[min(len(self.heard) - 1, 2)]

    async def suggest(self) -> ToolCall | str:
        if self.pressed < min(2 * len(self.heard), 3) and self.heard:
            return ToolCall(name="press")
        if len(self.heard) < len(WISHES):
            return ToolCall(name="reply_to_user", arguments={"message": f"{self.pressed} so far. What now?"})
        return "The user is content."

    async def grade(self, answer: str, transcript: Sequence[ChatMessage] = ()) -> Grade:
        self.transcript = [f"{one.role}: {one.content}" for one in transcript if one.content]
        return await super().grade(answer)

    async def snapshot(self) -> JSON:
        return {"pressed": self.pressed, "transcript": [*self.transcript]}


class Counter:
    name = "counter"
    version = "1"
    summary = "Press a button as often as somebody wants."
    replay: Replay = "exact"
    replay_ignores: tuple[str, ...] = ()

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        if split not in (None, "all", "train"):
            raise UnknownNameError("split", split, ["train"])
        return islice(map(self.task, WANTED), limit)

    def task(self, task_id: str) -> Task:
        if task_id not in WANTED:
            raise UnknownNameError("task", task_id, WANTED)
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=f"Task {task_id}: press the button.",
            split="train",
            domain="buttons",
            system="Policy: press gently.",
            limits=Limits(open_seconds=0.05) if task_id == "slow" else Limits(),
            trainable=task_id != "game",
        )

    async def open(self, task_id: str, *, seed: int = 0) -> World:
        if task_id == "slow":
            await anyio.sleep_forever()
        kinds: dict[str, type[Button]] = {"talk": Talk, "game": Game}
        return kinds.get(task_id, Button)(task_id)

    def reference(self, task_id: str) -> Reference | None:
        return None if task_id == "unsolved" else Reference(policy=task_id in ("talk", "game"))

    def tools(self) -> Sequence[ToolSpec]:
        return [PRESS]

    async def aclose(self) -> None:
        pass


COUNTER = Counter()
