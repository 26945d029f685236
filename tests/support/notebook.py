"""Notebook, a small benchmark: write the right text on the right page.

Tests serve it in process and, by its file's path, in a worker. Some of its tools misbehave, as real ones do.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import islice

import anyio

from mcp_bench.servers.contracts import JSON, Reference, Replay, Task, ToolCall, ToolResult, ToolSpec, World
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit
from mcp_bench.servers.progress import report_progress
from mcp_bench.servers.worlds.answer import ANSWER_TAKEN, SUBMIT_ANSWER

TASKS = 120


def tool(name: str, description: str, **properties: JSON) -> ToolSpec:
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=description, input_schema=schema)


class NotebookWorld:
    def __init__(self, page: int) -> None:
        self._wanted = page
        self.pages: dict[int, str] = {}
        self.busy = 0
        self.most_busy = 0
        self._answer: str | None = None

    def tools(self) -> Sequence[ToolSpec]:
        number: JSON = {"type": "integer", "minimum": 0}
        text: JSON = {"type": "string"}
        return [
            tool("write", "Write a text on a page.", page=number, text=text),
            tool("read", "Read a page.", page=number),
            tool("repeat", "Return a text many times.", text=text, times=number),
            tool("fail", "Raise an error.", message=text),
            tool("quit", "End the process that runs the world, or try to."),
            tool("count", "Count aloud.", times=number),
            tool("say", "Print on standard output.", text=text),
            tool("wait", "Wait until cancelled."),
            tool("spin", "Never come back, and let nobody else run."),
            SUBMIT_ANSWER,
        ]

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        self.busy += 1
        self.most_busy = max(self.busy, self.most_busy)
        try:
            await anyio.lowlevel.checkpoint()
            return await self._run(name, arguments)
        finally:
            self.busy -= 1

    async def _run(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        match name, arguments:
            case "write", {"page": int(page), "text": str(text)}:
                self.pages[page] = text
                return ToolResult(text="written", structured={"page": page})
            case "read", {"page": int(page)}:
                if page not in self.pages:
                    return ToolResult(text=f"page {page} is empty", is_error=True)
                return ToolResult(text=self.pages[page])
            case "repeat", {"text": str(text), "times": int(times)}:
                return ToolResult(text=text * times)
            case "fail", {"message": str(message)}:
                raise ValueError(message)
            case "quit", _:
                sys.exit("bye")
            case "count", {"times": int(times)}:
                for done in range(1, times + 1):
                    await report_progress(done, times, f"line {done}")
                return ToolResult(text=f"counted to {times}")
            case "say", {"text": str(text)}:
                print(text, flush=True)
                return ToolResult(text="said")
            case "wait", _:
                print("busy", flush=True)
                await anyio.sleep_forever()
            case "spin", _:
                print("busy", flush=True)
                while True:
                    pass
            case "submit_answer", {"answer": str(answer)}:
                self._answer = answer
                return ANSWER_TAKEN
        raise AssertionError(f"unchecked call {name} {arguments}")

    async def grade(self, answer: str) -> Grade:
        written = AssertionResult(name="written", passed=self.pages.get(self._wanted) == "hello")
        done = AssertionResult(name="answer", passed=(self._answer or answer) == "done")
        strict = written.passed and done.passed
        return Grade(
            partial=partial_credit([written, done], strict=strict),
            strict=strict,
            assertions=(written, done),
            grader_version="1",
        )

    async def snapshot(self) -> JSON:
        return {str(page): text for page, text in self.pages.items()}

    async def close(self) -> None:
        print("world closed", file=sys.stderr, flush=True)


class Notebook:
    name = "notebook"
    version = "1"
    summary = "Write on pages"
    replay: Replay = "exact"
    replay_ignores = ()

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        if split not in (None, "all", "train"):
            raise UnknownNameError("split", split, ["train", "all"])
        return islice((self.task(f"page-{number}") for number in range(TASKS)), limit)

    def task(self, task_id: str) -> Task:
        known = [f"page-{number}" for number in range(TASKS)]
        if task_id not in known:
            raise UnknownNameError("task", task_id, known)
        prompt = f"Write hello on {task_id} and answer done."
        return Task(id=task_id, benchmark=self.name, prompt=prompt, split="train", domain="paper")

    async def open(self, task_id: str, *, seed: int = 0) -> World:
        return NotebookWorld(int(self.task(task_id).id.removeprefix("page-")))

    def tools(self) -> Sequence[ToolSpec]:
        return NotebookWorld(0).tools()

    def reference(self, task_id: str) -> Reference | None:
        page = int(self.task(task_id).id.removeprefix("page-"))
        if page == 1:
            return None
        call = ToolCall(name="write", arguments={"page": page, "text": "hello"})
        return Reference(calls=(call,), answer="done")

    async def aclose(self) -> None:
        print("notebook closed", file=sys.stderr, flush=True)


BENCHMARK = Notebook()
