"""Hints for the teacher of SDPO: the same model, which has seen how another attempt solved the task.

The teacher reads the tokens that were sampled, after another prompt: a solved attempt at the same task comes
first, as an earlier conversation, and what the environment said about failed calls stands with the task. This
has the form of the chat template, whatever the model and the API.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np

from mcp_bench.trainer.engine.api.chat_request import Message, text_of
from mcp_bench.trainer.engine.api.errors import ApiError
from mcp_bench.trainer.engine.load import Loaded
from mcp_bench.trainer.engine.prompt import make_prompt
from mcp_bench.trainer.rl.credit.algorithms import Attempt, Weighted
from mcp_bench.trainer.rl.credit.conversation import Conversation
from mcp_bench.trainer.rl.credit.tokens import Row

ERRORS = "In an earlier attempt at this task, these calls failed:"
MOST_ERRORS = 5


class Hints:
    """Makes the prompts of the teacher."""

    def __init__(self, loaded: Loaded) -> None:
        self._loaded = loaded

    def add(self, group: Sequence[Attempt], rows: Sequence[Weighted]) -> list[Weighted]:
        """Return those rows of a group for which there is a hint, each with the teacher's.

        An attempt is never its own hint. Left out are rows whose prompt would be too long for the model, or
        that the chat template refuses.
        """
        of = {id(row): attempt for attempt in group for row in attempt.rows}
        solved = [attempt for attempt in group if attempt.solved]
        solved.sort(key=lambda attempt: sum(len(row.tokens) for row in attempt.rows))
        found = []
        for weighted in rows:
            own = of[id(weighted.row)]
            other = next((attempt for attempt in solved if attempt is not own), None)
            prompt = self._prompt(own, weighted.row, other)
            if prompt is not None:
                found.append(replace(weighted, hinted=after(prompt, weighted.row)))
        return found

    def _prompt(self, own: Attempt, row: Row, other: Attempt | None) -> list[int] | None:
        assert own.conversation is not None  # noqa: S101 - collected for this algorithm
        request = own.conversation.requests[row.answer]
        messages = _hinted(request.messages, own, other.conversation if other else None)
        if messages is None:
            return None
        try:
            prompt, _ = make_prompt(self._loaded, request.model_copy(update={"messages": messages}))
        except ApiError:
            return None
        positions = self._loaded.positions
        long = len(prompt) + len(row.tokens) - row.prompt
        return None if positions is not None and long > positions else prompt


def after(prompt: Sequence[int], row: Row) -> Row:
    """Return a row with another first prompt."""
    more, size = row.prompt, len(prompt)
    return replace(
        row,
        tokens=np.concatenate([np.asarray(prompt, np.int64), row.tokens[more:]]),
        sampled=np.concatenate([np.zeros(size, np.bool_), row.sampled[more:]]),
        logprobs=np.concatenate([np.zeros(size, np.float32), row.logprobs[more:]]),
        prompt=size,
    )


def _hinted(messages: Sequence[Message], own: Attempt, other: Conversation | None) -> list[Message] | None:
    """Return a prompt's messages with hints; None if there are none."""
    assert own.conversation is not None  # noqa: S101 - collected for this algorithm
    errors = () if own.strict else own.conversation.errors[:MOST_ERRORS]
    if other is None and not errors:
        return None
    system = list(takewhile(lambda message: message.role == "system", messages))
    said = list(messages[len(system) :])
    asked = list(takewhile(lambda message: message.role != "assistant", said))
    place = max((at for at, message in enumerate(asked) if message.role == "user"), default=None)
    if place is None:
        return None
    if errors:
        text = "\n".join([text_of(said[place].content), "", ERRORS, *(f"- {error}" for error in errors)])
        said[place] = said[place].model_copy(update={"content": text})
    return [*system, *(_solution(other) if other else ()), *said]


def _solution(other: Conversation) -> list[Message]:
    """Return the messages of a solved attempt."""
    messages = other.requests[-1].messages
    system = list(takewhile(lambda message: message.role == "system", messages))
    last = [Message(role="assistant", content=other.last)] if other.last else []
    return [*messages[len(system) :], *last]
