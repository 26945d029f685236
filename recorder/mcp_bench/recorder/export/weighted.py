"""Rows of episodes whose turns have weights by the effects of their calls, for a training loss.

The key is `weight` of a message, as in OpenAI's fine-tuning format; there it can be 0 and 1 only.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from typing import Any

from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.export.rows import Beside, Note, Rows
from mcp_bench.recorder.export.steps import LABELS, replays
from mcp_bench.recorder.files.writing import Encode
from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.trl import Trl
from mcp_bench.servers.errors import UnknownNameError, WrongUseError


def weights_of(words: Sequence[str]) -> dict[str, float]:
    """Return the weights of labels from words such as `error=0`.

    Raises:
        WrongUseError: a word has another form.
    """
    found: dict[str, float] = {}
    for word in words:
        name, _, number = word.partition("=")
        try:
            found[name] = float(number)
        except ValueError:
            raise WrongUseError(f"--step-weight {word}: write LABEL=WEIGHT, as in error=0") from None
    return found


class Weighted(Rows):
    """One row for each episode, in format trl. The weight of a turn is that of its worst call."""

    name = Trl.name

    def __init__(self, weights: Mapping[str, float]) -> None:
        """Take the weights of labels; all others have 1.

        Raises:
            UnknownNameError: there is no such label.
            WrongUseError: a weight is not between 0 and 1.
        """
        for label, weight in weights.items():
            if label not in LABELS:
                raise UnknownNameError("label of steps", label, LABELS)
            if not 0 <= weight <= 1:
                raise WrongUseError(f"the weight of {label} is {weight:g}: it must be between 0 and 1")
        self._weights = weights
        self._form = Trl()
        self.columns: Mapping[str, Column] = self._form.columns
        self._turns: dict[float, int] = {}
        self._unlike = 0

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note, encode: Encode, beside: Beside
    ) -> Generator[Any]:
        """Yield the episodes. One whose replay differs from the recording has no row, as for `Steps`."""
        with closing(replays(curation, chosen)) as found:
            for episode, conversation, effects in found:
                if effects is None:
                    self._unlike += 1
                    continue
                note(episode, curation.guard.leak(episode, conversation))
                [conversation] = curation.redacted(conversation)
                row = self._form.row(conversation)
                for place, _, step in effects:
                    turn = row["messages"][place]
                    turn["weight"] = min(turn.get("weight", 1.0), self._weights.get(step.label, 1.0))
                for turn in row["messages"]:
                    if (weight := turn.get("weight")) is not None:
                        self._turns[weight] = self._turns.get(weight, 0) + 1
                yield encode(row)

    def facts(self) -> dict[str, Any]:
        turns = {f"{weight:g}": count for weight, count in sorted(self._turns.items())}
        return {"step_weights": {"turns": turns, "episodes_that_replay_otherwise": self._unlike}}

    def why_none(self) -> str:
        return "their replays differ from their recordings"
