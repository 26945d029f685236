"""The server's tools under the names that a model knows, and its calls of them, valid or not."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Sequence

import anyio

from mcp_bench.clients.chat.provider import OfferedTool, ToolRequest
from mcp_bench.clients.connection import Connection, Outcome, Tool
from mcp_bench.clients.events import CalledTool

MAX_NAME = 64
"""Maximum length. Model APIs accept letters, digits, `_` and `-`; MCP accepts more."""


FINISH = OfferedTool(
    "finish",
    "End the work. Call it when the task is done, with your answer or a short report.",
    {
        "type": "object",
        "properties": {"answer": {"type": "string"}},
        "required": ["answer"],
        "additionalProperties": False,
    },
)
SAID = Outcome("The user reads it.")
"""What the model reads as the result of `FINISH`, if its user answers."""
NOT_MADE = Outcome("Nothing was done: one action a turn.", is_error=True)


class Toolbox:
    """Offers a connection's tools under names that every model API accepts."""

    def __init__(self, connection: Connection, *, one_action: bool = False) -> None:
        """Offer the tools of `connection`.

        Args:
            one_action: the model has to call one tool per turn. It gets a tool to finish with, and only the
                first call of a turn is made.
        """
        self._connection = connection
        self._tools = model_names(connection.tools, (FINISH.name,) if one_action else ())
        self.one_action = one_action

    @property
    def offered(self) -> list[OfferedTool]:
        tools = [OfferedTool(name, tool.description, dict(tool.schema)) for name, tool in self._tools.items()]
        return [*tools, FINISH] if self.one_action else tools

    def made(self, requests: Sequence[ToolRequest]) -> Sequence[ToolRequest]:
        """Return the calls of a turn that will be made."""
        return requests[:1] if self.one_action else requests

    def answer(self, requests: Sequence[ToolRequest]) -> str | None:
        """Return the final text if the model calls the tool to finish with, else None."""
        if not (self.one_action and requests and requests[0].name == FINISH.name) or requests[0].problem:
            return None
        answer = requests[0].arguments.get("answer", "")
        if answer is None:
            return ""
        return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)

    def called(self, request: ToolRequest) -> CalledTool:
        """Return a call with the server's name for the tool, for the events."""
        tool = self._tools.get(request.name)
        return CalledTool(request.id, tool.name if tool else request.name, request.arguments)

    async def call_all(self, requests: Sequence[ToolRequest]) -> list[Outcome]:
        """Make all calls at the same time and return their outcomes in the order of the requests.

        Raises:
            ClientError: the connection is closed.
        """
        outcomes: dict[int, Outcome] = {}

        async def call(index: int, request: ToolRequest) -> None:
            outcomes[index] = await self._call(request)

        async with anyio.create_task_group() as tasks:
            for index, request in enumerate(requests):
                tasks.start_soon(call, index, request)
        return [outcomes[index] for index in range(len(requests))]

    async def _call(self, request: ToolRequest) -> Outcome:
        tool = self._tools.get(request.name)
        if request.problem and (tool or request.name == FINISH.name):
            return Outcome(f"{request.problem} Nothing was done; call {request.name} again.", is_error=True)
        if tool is None:
            near = difflib.get_close_matches(request.name, self._tools, n=3) or list(self._tools)
            return Outcome(f"There is no tool {request.name!r}. There is: {', '.join(near)}.", is_error=True)
        return await self._connection.call(tool.name, request.arguments)


def model_names(tools: Sequence[Tool], taken: Sequence[str] = ()) -> dict[str, Tool]:
    """Return the tools by names that model APIs accept and are not `taken`, mostly the server's own."""
    named: dict[str, Tool] = {}
    for tool in tools:
        name = plain = re.sub(r"[^A-Za-z0-9_-]", "_", tool.name)[:MAX_NAME]
        number = 2
        while name in named or name in taken:
            name = f"{plain[: MAX_NAME - 4]}_{number}"
            number += 1
        named[name] = tool
    return named
