"""A world that lives in a worker process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mcp_bench.servers.contracts import JSON, ChatMessage, ToolCall, ToolResult, ToolSpec
from mcp_bench.servers.grading import AssertionResult, Grade
from mcp_bench.servers.progress import current_report
from mcp_bench.servers.remote.connection import WorkerConnection
from mcp_bench.servers.remote.host import Lender


class RemoteWorld:
    """A world in the worker. Its calls run there one after the other.

    It has the optional methods `assertions_now`, `reply` and `suggest` if the world in the worker has them.
    """

    def __init__(
        self,
        connection: WorkerConnection,
        number: int,
        opened: dict[str, Any],
        tools: Sequence[ToolSpec],
        lender: Lender,
    ) -> None:
        """Keep what the worker said about the world when it opened it."""
        self._connection = connection
        self._lender = lender
        self._number = number
        self._tools = tools
        self._reads_transcript: bool = opened["reads_transcript"]
        self._closes: bool = opened["closes"]
        self.changes_tools: bool = opened["changes_tools"]
        # on the instance, so that isinstance(world, Converses) is what it is in the worker
        if "assertions_now" in opened["methods"]:
            self.assertions_now = self._assertions_now
        if "reply" in opened["methods"]:
            self.reply = self._reply
        if "suggest" in opened["methods"]:
            self.suggest = self._suggest

    def tools(self) -> Sequence[ToolSpec]:
        return self._tools

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        answer = await self._connection.arequest(
            "call", current_report(), self._lender, world=self._number, name=name, arguments=arguments
        )
        if "tools" in answer:
            self._tools = self._connection.specs(answer["tools"])
        return ToolResult.model_validate(answer["result"])

    async def grade(self, answer: str, transcript: Sequence[ChatMessage] = ()) -> Grade:
        """Grade the current state. The transcript reaches only a world that reads it."""
        read = transcript if self._reads_transcript else ()
        said: list[JSON] = [message.model_dump(mode="json") for message in read]
        return Grade.model_validate(await self._ask("grade", answer=answer, transcript=said))

    async def snapshot(self) -> JSON:
        state: JSON = await self._ask("snapshot")
        return state

    async def close(self) -> None:
        if not self._connection.alive:
            return  # a dead worker has no world left to close
        if self._closes:
            await self._ask("close")
        else:  # nothing can fail; for a cheap world, waiting costs more than the world
            self._connection.drop(self._number)

    async def _assertions_now(self) -> Sequence[AssertionResult] | None:
        found = await self._ask("assertions_now")
        return None if found is None else [AssertionResult.model_validate(one) for one in found]

    async def _reply(self, said: str) -> str | None:
        answer = await self._ask("reply", said=said)
        if "tools" in answer:
            self._tools = self._connection.specs(answer["tools"])
        spoken: str | None = answer["said"]
        return spoken

    async def _suggest(self) -> ToolCall | str:
        step = await self._ask("suggest")
        return step if isinstance(step, str) else ToolCall.model_validate(step)

    async def _ask(self, method: str, **params: JSON) -> Any:
        return await self._connection.arequest(method, None, self._lender, world=self._number, **params)
