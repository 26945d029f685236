"""Match captured model calls with the turns of the conversation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from mcp_bench.recorder.conversations.align import plain
from mcp_bench.recorder.model_api.dialects import DIALECTS
from mcp_bench.recorder.model_api.dialects.dialect import JSONObject, Reply, RequestedCall
from mcp_bench.recorder.model_api.exchange import reply_of
from mcp_bench.recorder.store.model_calls import StoredModelCall, read_answers
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.recorder.store.signatures import tag_rows
from mcp_bench.recorder.trajectory import Message, ModelCall, ToolCall

Answer = tuple[str, str, JSONObject]
"""Call id, dialect name, and the complete answer."""

_BY_NAME = {dialect.name: dialect for dialect in DIALECTS}
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def match_turns(messages: Sequence[Message], replies: Iterable[Reply]) -> list[int | None]:
    """Return the index of the matching message for every reply, or None.

    Matches are in order: each search starts after the previous match. A message that shares a call id
    is preferred. Otherwise one that shares a call (tool and arguments) matches, or, if neither has
    calls, one with the same text.
    """
    found: list[int | None] = []
    start = 0
    for reply in replies:
        later = [i for i in range(start, len(messages)) if messages[i].role == "assistant"]
        index = next((i for same in (_shares_id, _says) for i in later if same(messages[i], reply)), None)
        found.append(index)
        start = start if index is None else index + 1
    return found


def join_model_calls(recording: Recording, episode: str, messages: list[Message]) -> list[Message]:
    """Store which captured call produced which message.

    Returns:
        The messages, with reasoning added that the model sent and the agent's transcript lacks.
    """
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
            tag_rows(db, recording.signer, "model_calls", "episode = ?", episode)
    return joined


def model_turns(calls: Iterable[StoredModelCall], answers: Iterable[Answer]) -> list[ModelCall]:
    """Return the calls that became turns, with the tokens that their answers contain."""
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
        return any(_same_call(call, requested) for call in message.tool_calls for requested in reply.calls)
    return bool(message.content) and _words(message.content) == _words(reply.text)


def _same_call(call: ToolCall, requested: RequestedCall) -> bool:
    # agents offer tools under longer names; JavaScript writes 10.0 as 10
    function = call.function
    same_arguments = plain(requested.arguments) == plain(function.arguments)
    return same_arguments and _letters(function.name) in _letters(requested.name)


def _letters(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name.lower())


def _words(text: str | None) -> list[str]:
    return (text or "").split()
