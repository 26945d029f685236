"""The effect of each call on the task's assertions, and step data: one row for each call, with its label.

A replay in the trusted process evaluates the assertions after every call (`ReportsAssertions` of the
contracts). The replay depends on this package, so it is an entry point of the group `mcp_bench.labellers`.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from mcp_bench.recorder.conversations.align import matched
from mcp_bench.recorder.conversations.errors import repeated_errors
from mcp_bench.recorder.curation.candidate import Candidate
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.export.rows import Beside, Note, Rows
from mcp_bench.recorder.files.writing import Encode
from mcp_bench.recorder.formats import Column
from mcp_bench.recorder.formats.facts import fact_columns, facts
from mcp_bench.recorder.formats.trl import Trl
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.store.episode_rows import ExecutedCall
from mcp_bench.recorder.trajectory import ToolCall, Trajectory
from mcp_bench.servers.grading import AssertionResult
from mcp_bench.servers.registry import load

Label = Literal["progress", "neutral", "setback", "broke_guardrail", "error", "repeated_error"]
LABELS: tuple[Label, ...] = get_args(Label)


@dataclass(frozen=True, slots=True)
class Step:
    """The effect of a call: after it, `met` of `objectives` hold and `broken` guardrails do not.

    `changed` has `(kind, name, whether it holds now)` of the assertions that it changed.
    """

    label: Label
    objectives: int
    met: int
    broken: int
    changed: tuple[tuple[str, str, bool], ...] = ()


Effect = tuple[int, ToolCall, Step]
"""The index of a message, a call in it as the agent made it, and what the call did."""


@dataclass(frozen=True, slots=True)
class Replayed:
    """The calls of an episode that its world executed, in order.

    `same` is true if each of them gave the recorded result.
    """

    calls: list[ExecutedCall]
    steps: list[Step]
    same: bool


class Labeller(Protocol):
    def __call__(self, episodes: Iterable[tuple[Path, StoredEpisode]]) -> Generator[Replayed]:
        """Yield the replay of each episode, one at a time.

        Raises:
            BenchError: a benchmark cannot be replayed here, or does not report its assertions.
        """
        ...


def step(before: Sequence[AssertionResult], after: Sequence[AssertionResult], *, is_error: bool) -> Step:
    """Return the effect of a call.

    A broken guardrail outweighs an objective that is met. A call that undoes an objective and meets no other
    is a setback.
    """
    passed = {one.name: one.passed for one in before}
    changed = [one for one in after if passed.get(one.name) != one.passed]
    label: Label = "neutral"
    if is_error:
        label = "error"
    elif any(one.kind == "guardrail" and not one.passed for one in changed):
        label = "broke_guardrail"
    elif any(one.kind == "objective" and one.passed for one in changed):
        label = "progress"
    elif any(one.kind == "objective" for one in changed):
        label = "setback"
    objectives = [one for one in after if one.kind == "objective"]
    broken = sum(one.kind == "guardrail" and not one.passed for one in after)
    differ = tuple((one.kind, one.name, one.passed) for one in changed)
    return Step(label, len(objectives), sum(one.passed for one in objectives), broken, differ)


def replays(
    curation: Curation, chosen: Sequence[Candidate]
) -> Generator[tuple[StoredEpisode, Trajectory, list[Effect] | None]]:
    """Yield the chosen episodes with the effects of their calls.

    There are no effects (None) if the replay differs from the recording: they would describe another course
    of events.

    Raises:
        BenchError: as for `Labeller`.
    """
    labeller: Labeller = load("labeller", "replay")
    waiting: list[tuple[StoredEpisode, Trajectory]] = []

    def episodes() -> Generator[tuple[Path, StoredEpisode]]:
        with closing(curation.read(chosen)) as read:
            for one, episode, conversation in read:
                waiting.append((episode, conversation))
                yield one.run, episode

    # an error in a replay leaves both where they are
    with closing(episodes()) as begun, closing(labeller(begun)) as replayed:
        for found in replayed:
            episode, conversation = waiting.pop()
            yield episode, conversation, list(labelled(conversation, found)) if found.same else None


def labelled(conversation: Trajectory, replayed: Replayed) -> Iterator[Effect]:
    """Yield the effect of each call of a conversation that is not redacted, in order.

    An error that an earlier call of the same tool had made already is a `repeated_error`. Calls of the
    agent's own tools are not recorded: they have no effect, and are errors if their results are.
    """
    turns = matched(conversation.messages, replayed.calls)
    again = repeated_errors(conversation.messages)
    last = Step("neutral", 0, 0, 0) if not replayed.steps else replayed.steps[0]
    last = Step("neutral", last.objectives, 0, 0)
    worked = {one.tool_call_id for one in conversation.messages if one.role == "tool" and not one.is_error}
    for place, (message, numbers) in enumerate(zip(conversation.messages, turns, strict=True)):
        for call, index in zip(message.tool_calls, numbers, strict=True):
            if index is None:  # it was refused, or is one of the agent's own tools
                label: Label = "neutral" if call.id in worked else "error"
                done = Step(label, last.objectives, last.met, last.broken)
            else:
                done = replayed.steps[index]
            if done.label == "error" and call.id in again:
                done = replace(done, label="repeated_error")
            last = done
            yield place, call, done


class Steps(Rows):
    """One row for each call: the conversation before it (`prompt`), the call (`completion`) and its label."""

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
        self._counts: dict[str, int] = dict.fromkeys(LABELS, 0)
        self._unlike = 0

    def rows(
        self, curation: Curation, chosen: Sequence[Candidate], note: Note, encode: Encode, beside: Beside
    ) -> Generator[Any]:
        """Yield the calls of the episodes, in order. One whose replay differs has no rows."""
        with closing(replays(curation, chosen)) as found:
            for episode, conversation, effects in found:
                if effects is None:
                    self._unlike += 1
                    continue
                note(episode, curation.guard.leak(episode, conversation))
                [conversation] = curation.redacted(conversation)
                yield from map(encode, self._rows(conversation, effects))

    def facts(self) -> dict[str, Any]:
        return {"steps": {"labels": dict(self._counts), "episodes_that_replay_otherwise": self._unlike}}

    def why_none(self) -> str:
        return f"the replays of {self._unlike} differ from their recordings, and the others have no calls"

    def _rows(self, conversation: Trajectory, effects: Sequence[Effect]) -> Iterator[dict[str, Any]]:
        row = self._form.row(conversation)
        episode_facts = facts(conversation)
        for number, (place, call, done) in enumerate(effects, 1):
            self._counts[done.label] += 1
            turn = row["messages"][place]
            (called,) = (one for one in turn["tool_calls"] if one["id"] == call.id)
            yield {
                "prompt": row["messages"][:place],
                "completion": [{**turn, "tool_calls": [called]}],
                "tools": row["tools"],
                "step": number,
                **{name: value for name, value in asdict(done).items() if name in self.columns},
                **episode_facts,
            }
