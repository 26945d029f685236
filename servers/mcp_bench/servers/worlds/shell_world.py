"""Worlds that are a machine: an agent gets a shell and files in a sandbox, and what it left is graded there.

Commands run in the sandbox that the trusted side lent (`mcp_bench.servers.sandbox`), never here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from mcp_bench.servers.contracts import JSON, ToolResult, ToolSpec
from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.progress import report_progress
from mcp_bench.servers.sandbox import Sandbox
from mcp_bench.servers.worlds.lines import lines_of
from mcp_bench.servers.worlds.object_tool import object_tool
from mcp_bench.servers.worlds.simple import SimpleWorld, whole_numbers

MOST_SECONDS = 600
SHOWN_BYTES = 30_000
"""Of a command's output, and of a file that is read."""


_PATH: JSON = {"type": "string", "description": "Path; a relative one begins at the working folder."}
BASH = object_tool(
    "bash",
    "Run a command in a shell, which keeps its folder and variables between calls. There is no terminal and "
    "no network.",
    ("command",),
    command={"type": "string"},
    seconds={
        "type": "integer",
        "minimum": 1,
        "maximum": MOST_SECONDS,
        "description": "Time limit. Default: 60.",
    },
)
READ_FILE = object_tool(
    "read_file",
    "Read a text file, or some of its lines.",
    ("path",),
    path=_PATH,
    first={"type": "integer", "minimum": 1, "description": "First line. Default: 1."},
    lines={"type": "integer", "minimum": 1, "description": "Number of lines. Default: all."},
)
WRITE_FILE = object_tool(
    "write_file",
    "Write a text file, and the folders above it.",
    ("path", "text"),
    path=_PATH,
    text={"type": "string"},
)
EDIT_FILE = object_tool(
    "edit_file",
    "Replace a text in a file. It must be there exactly once.",
    ("path", "old", "new"),
    path=_PATH,
    old={"type": "string", "minLength": 1},
    new={"type": "string"},
)


class ShellWorld(SimpleWorld):
    """A world with the tools `bash`, `read_file`, `write_file` and `edit_file` in a sandbox.

    A subclass implements `grade`: usually `sandbox.halt()`, `sandbox.changes()`, `sandbox.renew()`, and then
    commands whose output is compared here, on the trusted side.
    """

    toolset: Sequence[ToolSpec] = (BASH, READ_FILE, WRITE_FILE, EDIT_FILE)

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        if self.sandbox.over:  # its files are graded
            return ToolResult(text=f"The machine was stopped: {self.sandbox.over}", is_error=True, done=True)
        arguments = whole_numbers(arguments)
        try:
            match name:
                case "bash":
                    return await self._bash(str(arguments["command"]), arguments.get("seconds"))
                case "read_file":
                    return await self._read(arguments)
                case "write_file":
                    await self.sandbox.write(str(arguments["path"]), str(arguments["text"]).encode())
                    return ToolResult(text="Written.")
                case _:
                    return await self._edit(**{key: str(value) for key, value in arguments.items()})
        except SandboxError as error:
            return ToolResult(text=str(error), is_error=True)

    async def _bash(self, command: str, seconds: JSON) -> ToolResult:
        pieces = count(1)

        async def progress(text: str) -> None:
            await report_progress(next(pieces), message=text[-200:].strip())

        limit = float(seconds) if isinstance(seconds, int) else None
        done = await self.sandbox.run(command, seconds=limit, output_bytes=SHOWN_BYTES, progress=progress)
        notes = [done.output.rstrip("\n")] if done.output.strip() else []
        if done.timed_out:
            notes.append("[ended: its time was over]")
        elif done.code:
            notes.append(f"[exit code {done.code}]")
        if done.shell_ended:
            notes.append("[the shell ended; the next command gets a new one]")
        return ToolResult(text="\n".join(notes) or "[no output]", is_error=done.timed_out or done.code != 0)

    async def _read(self, arguments: dict[str, JSON]) -> ToolResult:
        text = (await self.sandbox.read(str(arguments["path"]))).decode("utf-8", "replace")
        first, count = arguments.get("first"), arguments.get("lines")
        rows = lines_of(text)
        start = first - 1 if isinstance(first, int) else 0
        chosen = "".join(rows[start : start + count if isinstance(count, int) else None])
        if len(chosen) > SHOWN_BYTES:
            chosen = (
                f"{chosen[:SHOWN_BYTES]}\n[{len(chosen) - SHOWN_BYTES} more characters: read fewer lines]"
            )
        return ToolResult(text=chosen)

    async def _edit(self, path: str, old: str, new: str) -> ToolResult:
        data = await self.sandbox.read(path)  # as bytes: a file may have parts that are no UTF-8
        before, after = (text.encode("utf-8", "replace") for text in (old, new))
        found = data.count(before)
        if found != 1:
            return ToolResult(text=f"The text is there {found} times, not once.", is_error=True)
        await self.sandbox.write(path, data.replace(before, after))
        return ToolResult(text="Replaced.")
