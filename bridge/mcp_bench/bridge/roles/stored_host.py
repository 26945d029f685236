"""A host that answers from a recording, for replays: nothing is asked again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcp_bench.recorder.store.asked import Asked
from mcp_bench.servers.contracts import ChatMessage, ToolSpec
from mcp_bench.servers.errors import HostError
from mcp_bench.servers.needs import Role
from mcp_bench.servers.sandbox import Sandbox, SandboxError, SandboxSpec


class StoredHost:
    """Gives the stored answer to each question that was asked before. Equal questions are taken in order."""

    def __init__(self, asked: Iterable[Asked]) -> None:
        self._left = [one for one in asked if one.answer is not None]

    async def ask(
        self, role: Role, messages: Sequence[ChatMessage], tools: Sequence[ToolSpec] = ()
    ) -> ChatMessage:
        """Return the stored answer.

        Raises:
            HostError: this was not asked in the recording.
        """
        said = [one.model_dump(mode="json") for one in messages]
        offered = [tool.model_dump(mode="json") for tool in tools]
        for place, one in enumerate(self._left):
            if (one.role, one.messages, one.tools) == (role, said, offered):
                del self._left[place]
                return ChatMessage.model_validate(one.answer)
        raise HostError(
            f"the replay asked the {role} something that is not in the recording: no answer is stored"
        )

    async def sandbox(self, spec: SandboxSpec) -> Sandbox:
        raise SandboxError("a replay has no sandbox")
