"""Training rows with the tokens that a policy sampled, never tokenized again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mcp_bench.recorder.model_api.dialects import BY_NAME
from mcp_bench.recorder.model_api.exchange import reply_of
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.servers.errors import BenchError


@dataclass(frozen=True)
class Sampled:
    """One answer of the policy."""

    prompt: tuple[int, ...]
    tokens: tuple[int, ...]
    """What was sampled, with the token that ended it."""
    logprobs: tuple[float, ...]
    """Of each token, under the distribution that it was drawn from."""
    cut: bool
    """Whether the limit of tokens ended it."""


@dataclass(frozen=True, eq=False)  # arrays have no single truth value
class Row:
    """A sequence to train on: answers of one episode of which each extends the one before.

    All arrays have the shape (tokens,).
    """

    tokens: npt.NDArray[np.int64]
    sampled: npt.NDArray[np.bool_]
    """Which tokens the policy chose and learns from. The others are prompts, tool results, the template's,
    and answers that a limit cut off."""
    logprobs: npt.NDArray[np.float32]
    """Of the sampled tokens; 0 elsewhere."""
    prompt: int = 0
    """Tokens of the first prompt."""
    answer: int = 0
    """The number of the row's first answer among those of its episode, from 0."""


def make_rows(answers: Iterable[Sampled]) -> list[Row]:
    """Return the rows of an episode: a new one begins where a prompt does not extend the tokens so far.

    An agent that rewrites its history, or asks beside it, makes several rows. None of their tokens is lost.
    An answer that a limit cut off keeps its tokens, but is not learned from. Rows of such answers are left
    out.
    """
    rows: list[tuple[list[int], list[bool], list[float]]] = []
    begun: list[tuple[int, int]] = []
    for number, answer in enumerate(answers):
        open_row = next((row for row in reversed(rows) if _extends(row[0], answer.prompt)), None)
        if open_row is None:
            open_row = ([], [], [])
            rows.append(open_row)
            begun.append((len(answer.prompt), number))
        tokens, sampled, logprobs = open_row
        later = answer.prompt[len(tokens) :]
        tokens += [*later, *answer.tokens]
        kept = not answer.cut
        sampled += [*[False] * len(later), *[kept] * len(answer.tokens)]
        logprobs += [*[0.0] * len(later), *(answer.logprobs if kept else [0.0] * len(answer.tokens))]
    return [
        Row(
            np.asarray(tokens, np.int64),
            np.asarray(sampled, np.bool_),
            np.asarray(logprobs, np.float32),
            *first,
        )
        for (tokens, sampled, logprobs), first in zip(rows, begun, strict=True)
        if any(sampled)
    ]


def read_sampled(reader: RunReader, episode: str) -> list[Sampled]:
    """Return the policy's answers in an episode, in order.

    Raises:
        BenchError: an answer has no tokens, so something else than the policy's engine gave it.
    """
    found = []
    for call, dialect, answer in reader.model_answers(episode):
        reply = reply_of(BY_NAME[dialect], answer)
        tokens = reply.tokens if reply else None
        if tokens is None or tokens.prompt_ids is None or tokens.ids is None or tokens.logprobs is None:
            raise BenchError(f"episode {episode}: the model call {call} has no tokens with log-probabilities")
        found.append(
            Sampled(
                prompt=tuple(tokens.prompt_ids),
                tokens=tuple(tokens.ids),
                logprobs=tuple(tokens.logprobs),
                cut=reply is not None and reply.cut,
            )
        )
    return found


def _extends(tokens: Sequence[int], prompt: Sequence[int]) -> bool:
    return len(prompt) >= len(tokens) and list(prompt[: len(tokens)]) == list(tokens)
