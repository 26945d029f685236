"""One attempt at an improvement task: the versions, what to ask a model, and what to do with its answer.

Each proposal is a request of its own: the task, some earlier versions with what came back, the files to
rewrite.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from random import Random

from mcp_bench.clients.chat.provider import Reply
from mcp_bench.clients.connection import Connection, Outcome
from mcp_bench.clients.events import CalledTool, ClientError, say_assistant, say_result
from mcp_bench.clients.search.choose import Choose, Version, merit

NEEDED = ("read", "write", "run", "submit")
LISTED = re.compile(r"^(?P<name>.+) \((?P<lines>\d+) lines\)$", re.MULTILINE)
"""A file of the target that can be edited, in what `read` says."""
CUT = re.compile(r"\n\[\d+ more characters: read fewer lines\]\Z")
"""The end of a long text that `read` did not return whole."""
GAIN = re.compile(r"^Gain over the baseline: \S+ \[(?P<low>\S+), \S+\]", re.MULTILINE)
LEFT = re.compile(r"\b(?P<left>\d+) of \d+ runs are left")
BLOCK = re.compile(
    r"(?:^[#* \t]*FILE:(?P<name>[^\n]+)(?:\n[ \t]*)*\n)?"
    r"^(?P<fence>`{3,}|~{3,})[^`\n]*\n(?P<text>.*?)^(?P=fence)[`~]*[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
"""A code block as in CommonMark, without indentation; perhaps with the line before it that names a file."""
ASK = """{task}

You cannot call tools here. {versions}

Write a better version of the last one. Answer with the whole new content of {files}, in a code block\
{named}."""


class Search:
    """One attempt."""

    def __init__(self, connection: Connection, task: str, choose: Choose, rng: Random) -> None:
        self._connection, self._task, self._choose, self._rng = connection, task, choose, rng
        self._numbers = 0
        self.versions: list[Version] = []
        self.left = 1

    async def begin(self) -> None:
        """Read the target and run it, for the first version.

        Raises:
            ClientError: the server has other tools, or a line of the target is too long for them.
        """
        have = {tool.name for tool in self._connection.tools}
        if missing := [name for name in NEEDED if name not in have]:
            raise ClientError(
                "usage", f"the server has no tool {missing[0]!r}: search is for improvement tasks"
            )
        listed = (await self._call("read", {})).text
        files = {}
        for found in LISTED.finditer(listed):
            files[found["name"]] = await self._file(found["name"], int(found["lines"]))
        await self._run(files, (), "the baseline")

    async def _file(self, path: str, count: int) -> str:
        """Return the whole text of a file with `count` lines: at once, or in parts where that is too long."""
        parts, first, lines = list[str](), 1, count
        while first <= count:
            place = {} if lines == count else {"first": first, "lines": lines}
            text = (await self._call("read", {"path": path, **place})).text
            if not CUT.search(text):
                parts.append(text)
                first += lines
            elif lines == 1:
                raise ClientError("usage", f"line {first} of {path} is too long for the tool `read`")
            else:
                lines = (lines + 1) // 2
        return "".join(parts)

    def request(self) -> tuple[str, tuple[int, ...]]:
        """Return what to ask the model, and the versions that it sees."""
        return self.asked(self._choose(self.versions, self._rng))

    def asked(self, shown: Sequence[Version]) -> tuple[str, tuple[int, ...]]:
        """Return what to ask the model about versions, the one to work on last, and their numbers."""
        shown[-1].children += 1
        parts = []
        for version in shown:
            texts = "\n".join(f"FILE: {name}\n```\n{text}\n```" for name, text in version.files.items())
            parts.append(f"Version {version.number}:\n{texts}\nThe experiment said: {version.said}")
        names = list(self.versions[0].files)
        asked = ASK.format(
            task=self._task,
            versions="\n\n".join(parts),
            files=" and ".join(names),
            named=", with a line `FILE: name` before each" if len(names) > 1 else "",
        )
        return asked, tuple(version.number for version in shown)

    def find(self, files: Mapping[str, str]) -> Version | None:
        """Return the version with these files."""
        return next((version for version in self.versions if version.files == files), None)

    async def propose(self, reply: Reply, parents: tuple[int, ...]) -> bool:
        """Run what the model wrote, if it is a program that was not run before. Return whether it was."""
        base = self.versions[parents[-1]].files
        files = {**base, **written(reply.text or "", base)}
        if self.find(files) is not None:
            say_assistant(reply.text, reply.reasoning)
            return False
        names = self._shrinking_first(files)
        first = names[0]
        call = self._called("write", {"path": first, "text": files[first]})
        say_assistant(reply.text, reply.reasoning, [call])
        refused = (await self._made(call)).is_error
        for name in names[1:]:
            refused |= (await self._call("write", {"path": name, "text": files[name]})).is_error
        if refused:  # what would run is not what the model wrote
            await self._write(self.versions[-1].files, names[::-1])
            return False
        await self._run(files, parents, f"from {' and '.join(map(str, parents))}")
        return True

    async def _run(self, files: Mapping[str, str], parents: tuple[int, ...], note: str) -> None:
        outcome = await self._call("run", {"note": note})
        gain, left = GAIN.search(outcome.text), LEFT.search(outcome.text)
        low = None if outcome.is_error or gain is None else float(gain["low"])
        self.left = int(left["left"]) if left else 0 if "Submit a version" in outcome.text else self.left
        self.versions.append(Version(len(self.versions), files, outcome.text, low, parents))

    async def submit(self) -> None:
        """End the attempt with the best version."""
        best = max(self.versions, key=merit)
        if best is not self.versions[-1]:
            await self._write(best.files)
        await self._call("submit", {})

    async def _write(self, files: Mapping[str, str], names: Sequence[str] = ()) -> None:
        for name in names or self._shrinking_first(files):
            await self._call("write", {"path": name, "text": files[name]})

    def _shrinking_first(self, files: Mapping[str, str]) -> list[str]:
        """Return the names in an order in which all writes fit, if the last version and these files do."""
        last = self.versions[-1].files
        return sorted(files, key=lambda name: _size(files[name]) - _size(last[name]))

    async def _call(self, name: str, arguments: Mapping[str, object]) -> Outcome:
        call = self._called(name, arguments)
        say_assistant(None, calls=[call])
        return await self._made(call)

    def _called(self, name: str, arguments: Mapping[str, object]) -> CalledTool:
        self._numbers += 1
        return CalledTool(f"call_{self._numbers}", name, dict(arguments))

    async def _made(self, call: CalledTool) -> Outcome:
        outcome = await self._connection.call(call.name, call.arguments)
        say_result(call, outcome.text, is_error=outcome.is_error)
        return outcome


def _size(text: str) -> int:
    return len(text.encode(errors="replace"))  # a model can write half a character


def written(text: str, files: Mapping[str, str]) -> dict[str, str]:
    """Return the files that an answer has: by the name before each block, or the last block for one file.

    A block ends with an end of line. A file that had none there, such as a prompt that a model goes on with,
    gets none.
    """
    found = BLOCK.finditer(text.replace("\r\n", "\n"))
    blocks = [((one["name"] or "").strip(" \t\r`*"), one["text"]) for one in found]
    if len(files) == 1:
        blocks = [(name, blocks[-1][1]) for name in files if blocks]
    return {
        name: content if files[name].endswith("\n") else content.removesuffix("\n")
        for name, content in blocks
        if name in files
    }
