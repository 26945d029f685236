"""A held-out split that is indexed by the shingles of its tasks.

Shingles are compared exactly: a split is small enough to look up each shingle of a row in it. So nothing is
estimated, and a prompt that is quoted in a longer text is found too, which MinHash would miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from mcp_bench.recorder.leakage.held_out import HeldOut, Texts, prompt_hash, solution_text
from mcp_bench.recorder.leakage.similarity import Shingles, distinct, shingles
from mcp_bench.recorder.trajectory import Message

Counts = npt.NDArray[np.int64]
Shares = npt.NDArray[np.float64]

SIMILAR = 0.8
"""Jaccard similarity from which two texts are near duplicates."""
QUOTED = 0.95
"""Share of a prompt's shingles that a longer text contains if it quotes the prompt."""
LEAST_RUNS = 8
"""Shorter prompts and solutions are similar by chance. An exact copy of a prompt counts at any length."""
QUOTED_RUNS = 20
"""Shorter prompts can be steps of a longer task."""


@dataclass(frozen=True, slots=True)
class Leak:
    """What a row has in common with a held-out task.

    `kind` is `task`, `split`, `same prompt`, `similar prompt`, `quoted prompt` or `similar solution`.
    """

    kind: str
    benchmark: str
    split: str
    task: str
    similarity: float

    def words(self) -> str:
        if self.kind == "split":
            return f"is itself in the split {self.split}"
        if self.kind == "task":
            return f"is the {self.split} task {self.task} of {self.benchmark}"
        share = "" if self.kind == "same prompt" else f", {self.similarity:.2f}"
        return f"{self.kind} as the {self.split} task {self.task} of {self.benchmark}{share}"


@dataclass(frozen=True, slots=True)
class Row:
    """The parts of a conversation that are compared."""

    benchmark: str
    task: str
    split: str
    messages: Sequence[Message]
    id: str = ""
    split_is_sure: bool = False
    """The split comes from the benchmark itself, so it need not be checked."""


class SplitIndex:
    """An index of one split by shingles."""

    def __init__(self, split: HeldOut) -> None:
        self._held = split
        self._tasks = frozenset(split.tasks)
        self._prompts = _Overlaps(split.prompts)
        self._solutions = _Overlaps(split.solutions)
        # all attempts at a task have the same prompt
        self._of_prompt = lru_cache(maxsize=4096)(self._like_prompt)
        self._shingles = lru_cache(maxsize=256)(shingles)

    @classmethod
    def empty(cls, benchmark: str, split: str) -> SplitIndex:
        nothing = Texts([], np.empty(0, dtype=np.uint64))
        return cls(HeldOut(benchmark, split, [], {}, nothing, nothing))

    def find(self, row: Row, threshold: float) -> Leak | None:
        if not self._tasks:
            return None
        if row.benchmark == self._held.benchmark and row.task in self._tasks:
            return self._leak("task", row.task, 1.0)
        prompts = [message.content for message in row.messages if message.role == "user" and message.content]
        for prompt in prompts:
            if found := self._of_prompt(prompt, threshold):
                return found
        calls = [call.function for message in row.messages for call in message.tool_calls]
        answers = [m.content for m in row.messages if m.role == "assistant" and m.content]
        solution = shingles(
            solution_text(((call.name, call.arguments) for call in calls), answers[-1] if answers else None)
        )
        instructions = [m.content for m in row.messages if m.role in ("system", "user") and m.content]
        place, share = self._prompts.most_quoted(
            distinct(np.concatenate([self._shingles("\n".join(instructions)), solution]))
        )
        if share >= QUOTED:
            return self._leak("quoted prompt", self._held.tasks[place], share)
        place, share = self._solutions.most_alike(solution)
        return self._leak("similar solution", self._held.tasks[place], share) if share >= threshold else None

    def _like_prompt(self, prompt: str, threshold: float) -> Leak | None:
        if task := self._held.exact.get(prompt_hash(prompt)):
            return self._leak("same prompt", task, 1.0)
        place, share = self._prompts.most_alike(self._shingles(prompt))
        return self._leak("similar prompt", self._held.tasks[place], share) if share >= threshold else None

    def _leak(self, kind: str, task: str, share: float) -> Leak:
        return Leak(kind, self._held.benchmark, self._held.split, task, round(share, 3))


class _Overlaps:
    """Counts the shingles that a text shares with each of many texts."""

    def __init__(self, texts: Texts) -> None:
        self._texts = texts
        self._sizes = np.array([len(text) for text in texts.shingles], dtype=np.int64)
        whole = np.concatenate([*texts.shingles, np.empty(0, dtype=np.uint64)])
        owners = np.repeat(np.arange(len(texts.shingles)), self._sizes)
        order = np.argsort(whole, kind="stable")
        self._owners = owners[order]
        self._keys, starts = np.unique(whole[order], return_index=True)
        self._spans = np.append(starts, len(whole))

    def most_alike(self, text: Shingles) -> tuple[int, float]:
        """Return the index of the text that is most similar to this one, and the similarity."""
        own = self._texts.own(text)
        shared = self._shared(own)
        return self._best(shared / np.maximum(self._sizes + len(own) - shared, 1), len(own), LEAST_RUNS)

    def most_quoted(self, text: Shingles) -> tuple[int, float]:
        """Return the index of the text of which this one contains the largest share, and the share."""
        return self._best(self._shared(text) / np.maximum(self._sizes, 1), len(text), QUOTED_RUNS)

    def _shared(self, own: Shingles) -> Counts:
        if not len(self._keys):
            return np.zeros(len(self._sizes), dtype=np.int64)
        at = np.minimum(np.searchsorted(self._keys, own), len(self._keys) - 1)
        there = at[self._keys[at] == own]
        spans = [self._owners[self._spans[key] : self._spans[key + 1]] for key in there]
        found = np.concatenate(spans) if spans else np.empty(0, dtype=np.int64)
        return np.bincount(found, minlength=len(self._sizes))

    def _best(self, shares: Shares, own: int, least: int) -> tuple[int, float]:
        if own < least or not len(shares):
            return 0, 0.0
        shares = np.where(self._sizes >= least, shares, 0.0)
        place = int(shares.argmax())
        return place, float(shares[place])
