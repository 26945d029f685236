"""Step data: one row for each call, labelled by what it did to the task's assertions.

A replay on the trusted side tells where the assertions stood after every call (`ReportsAssertions` of the
contract). It is an entry point of the group `mcp_bench.labellers`: what replays is built on this package.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from mcp_bench.recorder.conversations.align import matched
from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.export.rows import Note
from mcp_bench.recorder.files.layout import Layout
from mcp_bench.recorder.files.writing import Encode
from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.facts import fact_columns, facts
from mcp_bench.recorder.formats.trl import Trl
from mcp_bench.recorder.store.episode_rows import ExecutedCall
from mcp_bench.recorder.store.reader import StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory
from mcp_bench.servers.grading import AssertionResult
from mcp_bench.servers.registry import load

Label = Literal["progress", "neutral", "setback", "broke_guardrail", "error"]


@dataclass(frozen=True, slots=True)
class Step:
    """What a call did. `met` of `objectives` hold after it, and `broken` guardrails do not."""

    label: Label
    objectives: int
    met: int
    broken: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """The calls of an episode that its world ran, in that order; `same` says whether each of them gave the
    result that was recorded."""

    calls: list[ExecutedCall]
    steps: list[Step]
    same: bool


class Labeller(Protocol):
    def __call__(self, episodes: Iterable[tuple[Path, StoredEpisode]]) -> Generator[Replayed]:
        """Yield what came of each episode, one at a time.

        Raises:
            BenchError: a benchmark cannot be replayed here, or cannot tell where its assertions stand.
        """
        ...


def step(before: Sequence[AssertionResult], after: Sequence[AssertionResult], *, is_error: bool) -> Step:
    """Return what a call did. A broken guardrail outweighs an objective that is met; a call that undid one
    and met no other is a setback."""
    held = {one.name: one.passed for one in before}
    turned = [one for one in after if held.get(one.name) != one.passed]
    label: Label = "neutral"
    if is_error:
        label = "error"
    elif any(one.kind == "guardrail" and not one.passed for one in turned):
        label = "broke_guardrail"
    elif any(one.kind == "objective" and one.passed for one in turned):
        label = "progress"
    elif any(one.kind == "objective" for one in turned):
        label = "setback"
    objectives = [one for one in after if one.kind == "objective"]
    broken = sum(one.kind == "guardrail" and not one.passed for one in after)
    return Step(label, len(objectives), sum(one.passed for one in objectives), broken)


class Steps:
    """A row for each call: the conversation up to it as `prompt`, the call as `completion`, and its label."""

    name = "steps"
    columns: Mapping[str, Column] = {
        **dict.fromkeys(("prompt", "completion", "tools"), "json list"),
        "step": "int",
        "label": "string",
        **dict.fromkeys(("objectives", "met", "broken"), "int"),
        **fact_columns(),
    }

    def __init__(self) -> None:
        self._form = Trl()
        self._counts: dict[str, int] = dict.fromkeys(
            ("progress", "neutral", "setback", "broke_guardrail", "error"), 0
        )
        self._unlike = 0

    def count(self, chosen: Sequence[Candidate]) -> None:
        return None

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note, encode: Encode
    ) -> Generator[Any]:
        """Yield the calls of the episodes in their order; an episode whose replay differs from what was
        recorded gives none, since its labels would be about another course of events."""
        labeller: Labeller = load("labeller", "replay")
        waiting: list[tuple[StoredEpisode, Trajectory]] = []

        def episodes() -> Iterator[tuple[Path, StoredEpisode]]:
            for one, episode, conversation in curation.read(chosen):
                waiting.append((episode, conversation))
                yield one.run, episode

        with closing(labeller(episodes())) as replays:
            for replayed in replays:
                episode, conversation = waiting.pop()
                if not replayed.same:
                    self._unlike += 1
                    continue
                note(episode, curation.guard.leak(episode, conversation))
                yield from map(encode, self._rows(conversation, replayed))

    def companions(self, where: Layout, files: Sequence[Path]) -> dict[str, str]:
        return {}

    def facts(self) -> dict[str, Any]:
        return {"steps": {"labels": dict(self._counts), "episodes_that_replay_otherwise": self._unlike}}

    def _rows(self, conversation: Trajectory, replayed: Replayed) -> Iterator[dict[str, Any]]:
        row = self._form.row(conversation)
        told = facts(conversation)
        turns = matched(conversation.messages, replayed.calls)
        last = Step("neutral", 0, 0, 0) if not replayed.steps else replayed.steps[0]
        last = Step("neutral", last.objectives, 0, 0)
        number = 0
        for place, (turn, numbers) in enumerate(zip(row["messages"], turns, strict=True)):
            for call, index in zip(turn.get("tool_calls", ()), numbers, strict=True):
                number += 1
                # a call that its world never ran was refused, and changed nothing
                done = (
                    Step("error", last.objectives, last.met, last.broken)
                    if index is None
                    else replayed.steps[index]
                )
                last = done
                self._counts[done.label] += 1
                yield {
                    "prompt": row["messages"][:place],
                    "completion": [{**turn, "tool_calls": [call]}],
                    "tools": row["tools"],
                    "step": number,
                    **asdict(done),
                    **told,
                }
