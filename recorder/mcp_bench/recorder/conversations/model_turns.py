"""Captured model calls and the conversation they made: which answer became which turn."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from mcp_bench.recorder.conversations.align import plain
from mcp_bench.recorder.model_api.dialects import DIALECTS
from mcp_bench.recorder.model_api.dialects.dialect import AskedCall, JSONObject, Reply
from mcp_bench.recorder.model_api.exchange import reply_of
from mcp_bench.recorder.store.model_calls import StoredModelCall, read_answers
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.recorder.store.signatures import tag_rows
from mcp_bench.recorder.trajectory import Message, ModelCall, ToolCall

Answer = tuple[str, str, JSONObject]
"""Id of a call, its dialect, and the answer in one piece."""

_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def match_turns(messages: Sequence[Message], replies: Iterable[Reply]) -> list[int | None]:
    """Return for every reply the index of the message that is it, in order; None where there is none.

    A reply is the first message behind those before it that has a call with an id of its own, else the first
    that has one of its calls by tool and arguments, or, where neither has calls, the same text.
    """
    found: list[int | None] = []
    start = 0
    for reply in replies:
        behind = [i for i in range(start, len(messages)) if messages[i].role == "assistant"]
        index = next((i for same in (_shares_id, _says) for i in behind if same(messages[i], reply)), None)
        found.append(index)
        start = start if index is None else index + 1
    return found


def join_model_calls(recording: Recording, episode: str, messages: list[Message]) -> list[Message]:
    """Store which message came of which captured call; return the messages with the reasoning that the
    model told and the agent's transcript lacks."""
    with recording.writer.reading() as db:
        answers = list(_replies(read_answers(db, episode)))
    positions = match_turns(messages, (reply for _, reply in answers))
    joined = list(messages)
    known = [
        (call, reply, position)
        for (call, reply), position in zip(answers, positions, strict=True)
        if position is not None
    ]
    for _, reply, position in known:
        if reply.reasoning and not joined[position].reasoning:
            joined[position] = joined[position].model_copy(update={"reasoning": reply.reasoning})
    if known:
        with recording.writer.transaction() as db:
            db.executemany(
                "UPDATE model_calls SET message = ? WHERE id = ?",
                [(position, call) for call, _, position in known],
            )
            tag_rows(db, recording.key, "model_calls", "episode = ?", episode)
    return joined


def model_turns(calls: Iterable[StoredModelCall], answers: Iterable[Answer]) -> list[ModelCall]:
    """Return the calls that became turns, with the tokens that their answers told."""
    replies = dict(_replies(answers))
    turns = []
    for call in calls:
        if call.message is None or call.id not in replies:
            continue
        tokens = replies[call.id].tokens
        turns.append(
            ModelCall(
                id=call.id,
                message=call.message,
                model=call.model,
                parameters=call.parameters,
                usage=call.usage,
                finish=call.finish,
                prompt_token_ids=tokens.prompt_ids,
                token_ids=tokens.ids,
                logprobs=tokens.logprobs,
            )
        )
    return turns


def _replies(answers: Iterable[Answer]) -> Iterator[tuple[str, Reply]]:
    for call, name, answer in answers:
        if name in _BY_NAME and (reply := reply_of(_BY_NAME[name], answer)) is not None:
            yield call, reply


def _shares_id(message: Message, reply: Reply) -> bool:
    return bool({call.id for call in message.tool_calls} & {call.id for call in reply.calls})


def _says(message: Message, reply: Reply) -> bool:
    if message.tool_calls or reply.calls:
        return any(_same_call(call, asked) for call in message.tool_calls for asked in reply.calls)
    return bool(message.content) and _words(message.content) == _words(reply.text)


def _same_call(call: ToolCall, asked: AskedCall) -> bool:
    """Agents offer a tool under a longer name, and JavaScript writes 10.0 as 10."""
    function = call.function
    same_arguments = plain(asked.arguments) == plain(function.arguments)
    return same_arguments and _letters(function.name) in _letters(asked.name)


def _letters(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name.lower())


def _words(text: str | None) -> list[str]:
    return (text or "").split()
