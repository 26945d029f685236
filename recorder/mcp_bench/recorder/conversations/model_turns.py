"""Match captured model calls with the turns of the conversation."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from mcp_bench.recorder.conversations.align import canonical
from mcp_bench.recorder.model_api.dialects import BY_NAME
from mcp_bench.recorder.model_api.dialects.dialect import JSONObject, Reply
from mcp_bench.recorder.model_api.exchange import reply_of
from mcp_bench.recorder.store.model_calls import StoredModelCall, read_answers
from mcp_bench.recorder.store.recording import Recording
from mcp_bench.recorder.store.signatures import tag_rows
from mcp_bench.recorder.trajectory import Message, ModelCall

Answer = tuple[str, str, JSONObject]
"""Call id, dialect name, and the complete answer."""

_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")


def match_turns(messages: Sequence[Message], replies: Iterable[Reply]) -> list[int | None]:
    """Return the index of the matching message for every reply, or None.

    Matches are in order: each search starts after the previous match. A message that shares a call id
    is preferred. Otherwise one that shares a call (tool and arguments) matches, or, if neither has
    calls, one with the same text.
    """
    places = _Places(messages)
    found: list[int | None] = []
    start = 0
    for reply in replies:
        index = places.with_id(reply, start)
        if index is None:
            index = places.saying(reply, start)
        found.append(index)
        start = start if index is None else index + 1
    return found


class _Places:
    """Where the assistant's messages have which ids, calls and texts, for a fast search."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self._ids: defaultdict[str, list[int]] = defaultdict(list)
        self._calls: defaultdict[str | None, list[tuple[int, str]]] = defaultdict(list)
        """With the name of the tool."""
        self._texts: defaultdict[tuple[str, ...], list[int]] = defaultdict(list)
        for place, message in enumerate(messages):
            if message.role != "assistant":
                continue
            for call in message.tool_calls:
                self._ids[call.id].append(place)
                name = _letters(call.function.name)
                self._calls[_canonical(call.function.arguments)].append((place, name))
            if message.content and not message.tool_calls:
                self._texts[_words(message.content)].append(place)

    def with_id(self, reply: Reply, start: int) -> int | None:
        """Return the first place from `start` on that has the id of one of the reply's calls."""
        lists = [self._ids.get(call.id or "", []) for call in reply.calls]
        after = [(places, bisect_left(places, start)) for places in lists]
        return min((places[at] for places, at in after if at < len(places)), default=None)

    def saying(self, reply: Reply, start: int) -> int | None:
        """Return the first place from `start` on that has one of the reply's calls, or else its text."""
        if not reply.calls:
            places = self._texts.get(_words(reply.text), [])
            at = bisect_left(places, start)
            return places[at] if at < len(places) else None
        found = []
        for call in reply.calls:
            # agents offer tools under longer names
            name, made = _letters(call.name), self._calls.get(_canonical(call.arguments), [])
            later = islice(made, bisect_left(made, (start, "")), None)
            found.append(next((place for place, own in later if own in name), None))
        return min((place for place in found if place is not None), default=None)


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
        if name in BY_NAME and (reply := reply_of(BY_NAME[name], answer)) is not None:
            yield call, reply


def _canonical(arguments: object) -> str | None:
    """Return text that is the same for equal arguments; None if they are nested too deep for a call."""
    with suppress(RecursionError):
        return canonical(arguments)
    return None


def _letters(name: str) -> str:
    return _NOT_IN_NAMES.sub("_", name.lower())


def _words(text: str | None) -> tuple[str, ...]:
    return tuple((text or "").split())
