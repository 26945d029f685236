"""An agent's events put together to a conversation."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any

from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall


class Turns:
    """Assistant turns, each followed by the results of its calls.

    Agents run calls while the model still writes, so results may come between the parts of a turn:
    they are kept by the id of their call.
    """

    def __init__(self) -> None:
        self._turns: list[Message] = []
        self._results: dict[str, Message] = {}
        self._ranks: list[list[str]] = []
        """Of each call of each turn."""
        self._open = False

    def text(self, text: str) -> None:
        if text:
            turn = self._turn()
            turn.content = "\n\n".join([*([turn.content] if turn.content else []), text])

    def reasoning(self, text: str) -> None:
        if text:
            turn = self._turn()
            turn.reasoning = "\n\n".join([*([turn.reasoning] if turn.reasoning else []), text])

    def call(self, call_id: str, name: str, arguments: dict[str, Any], *, rank: str = "") -> None:
        """Add a call to its turn. `rank` is its place there, for agents that tell of calls as they end."""
        call = ToolCall(id=call_id, function=FunctionCall(name=name, arguments=arguments))
        self._turn().tool_calls.append(call)
        self._ranks[-1].append(rank)

    def result(self, call_id: str, text: str, *, is_error: bool = False) -> None:
        """Keep the first result of a call: what comes later is told by the agent, not by the tool."""
        message = Message(role="tool", content=text, tool_call_id=call_id, is_error=is_error)
        self._results.setdefault(call_id, message)

    def find(self, call_id: str) -> ToolCall | None:
        return next((call for turn in self._turns for call in turn.tool_calls if call.id == call_id), None)

    def end(self) -> None:
        """Let the next text, reasoning or call begin a new turn."""
        self._open = False

    def messages(self) -> list[Message]:
        messages: list[Message] = []
        for told, ranks in zip(self._turns, self._ranks, strict=True):
            ranked = sorted(zip(ranks, told.tool_calls, strict=True), key=itemgetter(0))
            turn = told.model_copy(update={"tool_calls": [call for _, call in ranked]})
            messages.append(turn)
            answered = [call for call in turn.tool_calls if call.id in self._results]
            messages += [
                self._results[call.id].model_copy(update={"name": call.function.name}) for call in answered
            ]
        return messages

    def _turn(self) -> Message:
        if not self._open:
            self._turns.append(Message(role="assistant"))
            self._ranks.append([])
            self._open = True
        return self._turns[-1]


def final_answer(messages: Sequence[Message]) -> str | None:
    """Return the text that an agent ended on; None where it was cut off in the middle of its work."""
    last = messages[-1] if messages else None
    return last.content if last and last.role == "assistant" and not last.tool_calls else None
