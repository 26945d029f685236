"""Box, a benchmark whose worlds are sandboxes: write a file that a hidden check reads.

`box` runs in the process of the referee, `box-remote` in a worker.
"""

from mcp_bench.servers.sdk import (
    JSON,
    NO_HOST,
    AssertionResult,
    Grade,
    Host,
    Reference,
    RemoteBenchmark,
    Sandbox,
    SandboxError,
    SandboxSpec,
    SimpleBenchmark,
    SimpleWorld,
    Task,
    ToolCall,
    ToolResult,
    ToolSpec,
)

BASH = ToolSpec(
    name="bash",
    description="Run a command in the shell.",
    input_schema={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
CHECK = b'test "$(cat /work/answer)" = 42 && echo held'


class BoxWorld(SimpleWorld):
    toolset = (BASH,)

    def __init__(self, host: Host, sandbox: Sandbox) -> None:
        self._host, self._sandbox = host, sandbox
        self.files: list[JSON] = []

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if arguments["command"] == "another":
            try:
                await self._host.sandbox(SandboxSpec())
            except SandboxError as error:
                return ToolResult(text=str(error), is_error=True)
        done = await self._sandbox.run(str(arguments["command"]), seconds=30)
        return ToolResult(text=done.output, is_error=done.code != 0)

    async def grade(self, answer: str) -> Grade:
        await self._sandbox.halt()
        self.files = [change.path for change in await self._sandbox.changes()]
        await self._sandbox.renew({"/check": {"run.sh": CHECK}})
        done = await self._sandbox.run("/bin/sh /check/run.sh", seconds=30)
        held = done.output.strip() == "held"
        check = AssertionResult(name="answer", passed=held, detail=done.output)
        return Grade(partial=float(held), strict=held, assertions=(check,), grader_version="1")


class Box(SimpleBenchmark):
    summary = "Write a file in a sandbox."
    toolset = (BASH,)
    replay = "none"

    def __init__(self, name: str) -> None:
        self.name = name

    def ids(self, split: str) -> list[str]:
        return ["file"] if split == "test" else []

    def make_task(self, task_id: str) -> Task | None:
        if task_id != "file":
            return None
        return Task(
            id="file", benchmark=self.name, prompt="Write 42 into /work/answer.", split="test", domain="box",
            needs=("sandbox",),
        )  # fmt: skip

    async def make_world(self, task_id: str, seed: int, host: Host = NO_HOST) -> BoxWorld:
        return BoxWorld(host, await host.sandbox(SandboxSpec()))

    def reference(self, task_id: str) -> Reference:
        commands = ["another", "printf 42 >answer", "mkdir -p /check; id -u"]
        return Reference(calls=tuple(ToolCall(name="bash", arguments={"command": one}) for one in commands))


BOX = Box("box")
WORKER = Box("box-remote")
REMOTE = RemoteBenchmark("box-remote", f"{__file__}:WORKER", version="1")
