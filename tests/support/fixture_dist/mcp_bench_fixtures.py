"""A third-party package with a tiny benchmark and an agent, registered by entry points.

Put this folder on PYTHONPATH and `mcp-bench` lists both. The agent runs any Python file, so tests can simulate
every kind of agent misbehaviour.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import anyio

from mcp_bench.plugins.contracts import (
    AgentOutput,
    Capabilities,
    Fault,
    Installation,
    Launch,
    LaunchRequest,
    McpServer,
    Transcript,
)
from mcp_bench.recorder.trajectory import Message, Usage
from mcp_bench.servers.contracts import JSON, Reference, Replay, Task, ToolCall, ToolResult, ToolSpec
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.grading import AssertionResult, Grade, partial_credit

TEXT = {"type": "string"}


def tool(name: str, **properties: dict[str, JSON]) -> ToolSpec:
    schema: dict[str, JSON] = {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
    return ToolSpec(name=name, description=f"{name} in the notebook", input_schema=schema)


TOOLS = (
    tool("write", key=TEXT, value=TEXT),
    tool("read", key=TEXT),
    tool("pages", size={"type": "integer"}),
    tool("wait", path=TEXT),
)


async def written_to(fifo: str) -> str:
    """Wait for a writer of a FIFO and return what it wrote. Uses no thread, so the wait can be cancelled."""
    pipe = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    try:
        text = b""
        while True:
            await anyio.wait_readable(pipe)
            with suppress(BlockingIOError):
                chunk = os.read(pipe, 4096)
                if not chunk:
                    return text.decode()
                text += chunk
    finally:
        os.close(pipe)


class NotebookWorld:
    def __init__(self, wanted: dict[str, str]) -> None:
        self.wanted = wanted
        self.notes: dict[str, str] = {}

    def tools(self) -> Sequence[ToolSpec]:
        return TOOLS

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if name == "write":
            self.notes[str(arguments["key"])] = str(arguments["value"])
            return ToolResult(text="written")
        if name == "read":
            key = str(arguments["key"])
            if key not in self.notes:
                return ToolResult(text=f"no note under {key!r}", is_error=True)
            return ToolResult(text=self.notes[key])
        if name == "pages":
            return ToolResult(text="x" * int(str(arguments["size"])))
        return ToolResult(text=await written_to(str(arguments["path"])))

    async def grade(self, answer: str) -> Grade:
        checks = tuple(
            AssertionResult(name=f"expects-{key}-{value}", passed=self.notes.get(key) == value)
            for key, value in self.wanted.items()
        )
        strict = all(check.passed for check in checks)
        return Grade(
            partial=partial_credit(checks, strict=strict),
            strict=strict,
            assertions=checks,
            grader_version="notebook-1",
        )

    async def snapshot(self) -> JSON:
        return {"notes": dict(self.notes), "marker": "final-state-of-the-notebook"}

    async def close(self) -> None:
        pass


class Notebook:
    """Two tasks. The sealed part of each contains words that occur nowhere else."""

    name = "notebook"
    version = os.environ.get("NOTEBOOK_VERSION", "1")
    summary = "Write two notes (a fixture)."
    replay: Replay = "exact"
    replay_ignores: tuple[str, ...] = ()

    WANTED = {
        "colours": {"sky": "cerulean-sentinel", "grass": "viridian-sentinel"},
        "numbers": {"one": "uno-sentinel", "two": "due-sentinel"},
    }

    def tasks(self, split: str | None = None, limit: int | None = None) -> Iterator[Task]:
        if split not in (None, "all", "train"):
            raise UnknownNameError("split", str(split), ["all", "train"])
        for task_id in list(self.WANTED)[:limit]:
            yield self.task(task_id)

    def task(self, task_id: str) -> Task:
        if task_id not in self.WANTED:
            raise UnknownNameError("task", task_id, self.WANTED)
        limit = 3 if task_id == "numbers" else None
        return Task(
            id=task_id,
            benchmark=self.name,
            prompt=f"Fill the page of {task_id}.",
            split="train",
            domain="notes",
            max_calls=limit,
        )

    async def open(self, task_id: str, *, seed: int = 0) -> NotebookWorld:
        self.task(task_id)
        return NotebookWorld(self.WANTED[task_id])

    def tools(self) -> Sequence[ToolSpec]:
        return TOOLS

    def reference(self, task_id: str) -> Reference:
        wanted = self.WANTED[task_id]
        calls = tuple(
            ToolCall(name="write", arguments={"key": key, "value": value}) for key, value in wanted.items()
        )
        return Reference(calls=calls, answer="done")

    async def aclose(self) -> None:
        pass


NOTEBOOK = Notebook()


class Script:
    """Runs a Python file as the agent: `--agent-option file=PATH`. The last line on stdout is its answer.

    The file can write to its HOME: `fault` ("KIND: text", or text alone), `usage` (JSON), and `messages`, its
    own transcript with one JSON object per line.
    """

    name = "script"
    summary = "Any Python file as an agent (a fixture)."
    capabilities = Capabilities(http=True, inside=True)
    options: Mapping[str, str] = {"file": "the Python file", "fault": "an endpoint fault to report"}

    def find(self, environ: Mapping[str, str]) -> Installation:
        return Installation(sys.executable, environ.get("SCRIPT_VERSION", "1.0"))

    def prepare(self, request: LaunchRequest) -> Launch:
        config = request.home / "server.json"
        settings = {**asdict(request.server), "prompt": request.prompt, "repeat": request.repeat}
        settings["endpoint"] = request.base_url
        config.write_text(json.dumps(settings))
        fault = request.options.get("fault", "")
        (request.home / "fault").write_text(fault)
        return Launch((request.installation.executable, request.options["file"]), {"CONFIG": str(config)})

    def read(self, output: AgentOutput, server: McpServer) -> Transcript:
        files = output.private
        text = files.read("fault").decode()
        kind, colon, detail = text.partition(": ")
        fault = {"kind": kind, "detail": detail} if colon else {"kind": "endpoint_error", "detail": text}
        lines = Path(output.stdout).read_text(errors="replace").splitlines()
        return Transcript(
            messages=[Message.model_validate(line) for line in files.lines("messages")],
            answer=lines[-1] if lines else None,
            fault=Fault.model_validate(fault) if text else None,
            usage=Usage.model_validate_json(files.read("usage")) if "usage" in files.names() else None,
        )


class Priced(Script):
    """A script agent that reports its cost."""

    name = "priced"
    capabilities = Capabilities(reports_cost=True)
