"""Align the agent's transcript with the recorded calls.

The transcript provides text, reasoning and order. The recording is authoritative for calls.
"""

from __future__ import annotations

import itertools
import json
from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

from mcp_bench.recorder.records import RecordedCall
from mcp_bench.recorder.store.episode_rows import ExecutedCall
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall


def align(
    prompt: str, transcript: Sequence[Message], calls: Sequence[RecordedCall], *, system: str = ""
) -> list[Message]:
    """Return the conversation of an episode, starting with the prompt as the user's message.

    `system`, the task's other instructions, is a system message before it. An agent's own system messages
    are left out.

    - Each transcript call takes the result of the first unused recorded call (in execution order)
      with the same name and equal arguments.
    - Recorded calls that the transcript lacks are inserted where they ran: before the message with
      the next matched call, into a message whose parallel calls ran around them, or after the last
      matched call. If no call matches, they go before the final answer.
    - Transcript calls that never reached the wire keep the transcript's result.
    - Every tool call is followed by exactly one tool message, and ids are unique.

    Without a transcript, every recorded call becomes a separate assistant message.
    """
    turns = [message for message in transcript if message.role != "system"]
    if turns and turns[0].role == "user" and _is_the_task(turns[0].content or "", prompt, system):
        turns = turns[1:]
    aligned = _Alignment(turns, calls)
    begin = [Message(role="system", content=system)] if system else []
    return [*begin, Message(role="user", content=prompt), *aligned.messages()]


def _is_the_task(said: str, prompt: str, system: str) -> bool:
    # an agent without system messages gets both in one
    return said == prompt or (bool(system) and system in said and prompt in said)


class _Alignment:
    def __init__(self, turns: Sequence[Message], calls: Sequence[RecordedCall]) -> None:
        self._calls = calls
        self._results_by_id: dict[str, deque[Message]] = defaultdict(deque)
        for message in turns:
            if message.role == "tool":
                self._results_by_id[message.tool_call_id or ""].append(message)
        self._turns = [message for message in turns if message.role != "tool"]
        self._matches = matched(self._turns, calls)
        known = {index for turn in self._matches for index in turn if index is not None}
        self._missing = deque(index for index in range(len(calls)) if index not in known)
        self._taken: set[str] = set()
        self._fresh = (f"call_{number}" for number in itertools.count(1))
        self._reserved = {call.id for turn in self._turns for call in turn.tool_calls}

    def messages(self) -> Iterator[Message]:
        flush_at = self._last_known()
        for position, (turn, matches) in enumerate(zip(self._turns, self._matches, strict=True)):
            known = [index for index in matches if index is not None]
            if known:
                yield from self._insert(before=min(known))
            if flush_at is None and position == self._final_answer():
                yield from self._insert(before=len(self._calls))
            if turn.tool_calls:
                yield from self._turn(turn, matches, max(known, default=-1))
            else:
                yield turn
            if position == flush_at:
                yield from self._insert(before=len(self._calls))
        yield from self._insert(before=len(self._calls))

    def _last_known(self) -> int | None:
        return max(
            (i for i, turn in enumerate(self._matches) if any(m is not None for m in turn)), default=None
        )

    def _final_answer(self) -> int:
        last = len(self._turns) - 1
        if last >= 0 and self._turns[last].role == "assistant" and not self._turns[last].tool_calls:
            return last
        return len(self._turns)

    def _insert(self, *, before: int) -> Iterator[Message]:
        while self._missing and self._missing[0] < before:
            call = self._calls[self._missing.popleft()]
            tool_call = _tool_call(self._unique(""), call)
            yield Message(role="assistant", tool_calls=[tool_call])
            yield _result(tool_call, call)

    def _turn(self, turn: Message, matches: list[int | None], last: int) -> Iterator[Message]:
        tool_calls: list[ToolCall] = []
        results: list[Message] = []
        for call, index in zip(turn.tool_calls, matches, strict=True):
            tool_call = call.model_copy(update={"id": self._unique(call.id)})
            stored = self._results_by_id[call.id].popleft() if self._results_by_id[call.id] else None
            tool_calls.append(tool_call)
            results.append(
                _transcript_result(tool_call, stored)
                if index is None
                else _result(tool_call, self._calls[index])
            )
        while self._missing and self._missing[0] < last:  # ran between two of these calls
            recorded = self._calls[self._missing.popleft()]
            tool_calls.append(_tool_call(self._unique(""), recorded))
            results.append(_result(tool_calls[-1], recorded))
        yield turn.model_copy(update={"tool_calls": tool_calls})
        yield from results

    def _unique(self, wanted: str) -> str:
        if not wanted or wanted in self._taken:
            wanted = next(name for name in self._fresh if name not in self._reserved)
        self._taken.add(wanted)
        return wanted


def matched(turns: Sequence[Message], calls: Sequence[RecordedCall | ExecutedCall]) -> list[list[int | None]]:
    """Return the index of the recorded call for every call of every turn.

    That is the first unused recorded call with the same tool and arguments, or None.
    """
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for index, call in enumerate(calls):
        waiting[canonical([call.tool, call.arguments])].append(index)

    def take(call: ToolCall) -> int | None:
        queue = waiting[canonical([call.function.name, call.function.arguments])]
        return queue.popleft() if queue else None

    return [[take(call) for call in turn.tool_calls] for turn in turns]


def canonical(value: object) -> str:
    """Return JSON text that is the same for equal JSON values.

    Raises:
        RecursionError: the value is nested too deep.
    """
    return json.dumps(_plain(value), sort_keys=True)


def _plain(value: object) -> object:
    # JavaScript agents write 2.0 as 2; True stays distinct from 1
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return value


def _tool_call(call_id: str, call: RecordedCall) -> ToolCall:
    return ToolCall(id=call_id, function=FunctionCall(name=call.tool, arguments=call.arguments))


def _result(tool_call: ToolCall, call: RecordedCall) -> Message:
    return Message(
        role="tool", content=call.text, tool_call_id=tool_call.id, name=call.tool, is_error=call.is_error
    )


def _transcript_result(tool_call: ToolCall, result: Message | None) -> Message:
    return Message(
        role="tool",
        content=(result.content if result else None) or "",
        tool_call_id=tool_call.id,
        name=tool_call.function.name,
        is_error=result is None or result.is_error,
    )
