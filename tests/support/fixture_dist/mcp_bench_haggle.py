"""Haggle, a benchmark whose worlds ask models: one task each for a user, a judge and an opponent.

`haggle` runs in the process of the referee, `haggle-remote` in a worker.
"""

from collections.abc import Sequence

from mcp_bench.servers.sdk import (
    JSON,
    NO_HOST,
    AssertionResult,
    ChatMessage,
    Grade,
    Host,
    Reference,
    RemoteBenchmark,
    Role,
    SimpleBenchmark,
    SimpleWorld,
    Task,
    ToolResult,
    ToolSpec,
)

SOLUTION = "SECRET-SOLUTION-4711"
NEEDS: dict[str, Role] = {"user": "user", "judge": "judge", "opponent": "opponent"}


def tool(name: str, **properties: JSON) -> ToolSpec:
    schema: dict[str, JSON] = {"type": "object", "properties": properties, "required": [*properties]}
    return ToolSpec(name=name, description=f"The tool {name}.", input_schema=schema)


OFFER = tool("offer", price={"type": "integer"})
VERDICT = tool("verdict", passed={"type": "boolean"})


class HaggleWorld(SimpleWorld):
    toolset = (OFFER,)

    def __init__(self, task: str, host: Host) -> None:
        self.task = task
        self.heard: list[str] = []
        self.offers: list[JSON] = []
        self._host = host

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        self.offers.append(arguments["price"])
        if self.task != "opponent":
            return ToolResult(text="noted")
        asked = [ChatMessage(role="user", content=f"They offer {arguments['price']}. {SOLUTION}")]
        answer = await self._host.ask("opponent", asked, [OFFER])
        self.offers += [call.arguments["price"] for call in answer.calls]
        return ToolResult(text=f"they answer {answer.calls[0].arguments['price']}")

    async def grade(self, answer: str, transcript: Sequence[ChatMessage] = ()) -> Grade:
        passed = len(self.offers) > 0
        if self.task == "judge":
            said = [one.content for one in transcript if one.role == "assistant"]
            asked = [ChatMessage(role="user", content=f"Is it {SOLUTION}? {answer} {said}")]
            verdict = await self._host.ask("judge", asked, [VERDICT])
            passed = verdict.calls[0].arguments["passed"] is True
        check = AssertionResult(name="right", passed=passed)
        return Grade(partial=float(passed), strict=passed, assertions=(check,), grader_version="1")


class TalkingWorld(HaggleWorld):
    async def reply(self, said: str) -> str | None:
        answer = await self._host.ask("user", [ChatMessage(role="user", content=f"{said} {SOLUTION}")])
        self.heard.append(answer.content)
        return answer.content


class Haggle(SimpleBenchmark):
    summary = "Haggle with models."
    toolset = (OFFER,)

    def __init__(self, name: str) -> None:
        self.name = name

    def ids(self, split: str) -> list[str]:
        return [*NEEDS, "alone"] if split == "test" else []

    def make_task(self, task_id: str) -> Task | None:
        if task_id not in (*NEEDS, "alone"):
            return None
        needs = (f"model:{NEEDS[task_id]}",) if task_id in NEEDS else ()
        return Task(
            id=task_id, benchmark=self.name, prompt=f"Haggle ({task_id}).", split="test", domain="market",
            needs=needs,
        )  # fmt: skip

    def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> HaggleWorld:
        return (TalkingWorld if task_id == "user" else HaggleWorld)(task_id, host)

    def reference(self, task_id: str) -> Reference:
        return Reference(answer="done")


HAGGLE = Haggle("haggle")
WORKER = Haggle("haggle-remote")
REMOTE = RemoteBenchmark("haggle-remote", f"{__file__}:WORKER", version="1")
