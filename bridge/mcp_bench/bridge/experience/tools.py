"""What an agent can ask about the recordings of a home.

It sees episodes of the split `train` only. Of `dev` it sees totals, rounded to a standard error, so that many
questions cannot find out which tasks of `dev` were solved. Of `test` and of private splits it sees nothing.
Names of assertions would say what a grader looks for, and are shown on request of the operator only.
"""

from __future__ import annotations

import json
import math
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal

import anyio
from pydantic import Field

from mcp_bench.bridge.replay.one_episode import replay_of
from mcp_bench.bridge.viewer.recordings import Library
from mcp_bench.bridge.viewer.search_index import MARK, UNMARK, SearchIndex
from mcp_bench.recorder.conversations.errors import general
from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.export.steps import labelled
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.scores.scores import summarise
from mcp_bench.recorder.scores.task_names import family
from mcp_bench.recorder.trajectory import Message, Trajectory
from mcp_bench.servers.contracts import JSON, ToolResult
from mcp_bench.servers.errors import BenchError, suggestion
from mcp_bench.servers.sdk import RefusedError, SimpleWorld, tool

SHOWN, GATED = "train", "dev"
FEWEST = 16
"""Tasks of dev below which no score is shown: the fewer, the more it says about each."""
MOST_TEXT = 2_000
"""Characters of one text in a conversation; the rest is left out, and that is said."""
GROUPS = ("benchmark", "agent", "model", "harness")
WAIT_SECONDS = 20.0
"""For the search index, which is made at the first search."""

Limit = Annotated[int, Field(ge=1, le=100)]
Position = Annotated[int, Field(ge=0)]


@dataclass
class _Failures:
    calls: int = 0
    failed: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, episode: str) -> None:
        self.failed += 1
        if len(self.examples) < 3 and episode not in self.examples:
            self.examples.append(episode)


class Experience(SimpleWorld):
    """The tools. They change nothing."""

    def __init__(self, library: Library, *, runs: Sequence[Path] | None = None, reveal: bool = False) -> None:
        """Show a home's recordings.

        Args:
            runs: only these, or None: all, also those that come later.
            reveal: show names and outcomes of assertions.
        """
        self._library, self._runs, self._reveal = library, runs, reveal
        self._index = SearchIndex(library)
        self.reading: set[int] = set()
        """Threads that answer a call which only reads: they may outlast it."""

    async def call(self, name: str, arguments: dict[str, JSON]) -> ToolResult:
        """Answer in a thread: reading databases takes seconds, and other clients wait for the event loop."""
        reads = name in READS
        answer = partial(anyio.run, super().call, name, arguments)
        try:
            return await anyio.to_thread.run_sync(self._noted, answer, reads, abandon_on_cancel=reads)
        except KeyError as gone:
            return ToolResult(text=f"{gone} was deleted meanwhile.", is_error=True)

    def _noted(self, answer: Callable[[], ToolResult], reads: bool) -> ToolResult:
        here = threading.get_ident()
        if reads:
            self.reading.add(here)
        try:
            return answer()
        finally:
            self.reading.discard(here)

    def _paths(self) -> Sequence[Path]:
        return self._library.paths() if self._runs is None else self._runs

    def _episodes(self, split: str = SHOWN) -> Iterator[StoredEpisode]:
        """Yield the ended episodes that may be shown."""
        for one in self._library.all_episodes(self._paths()):
            shown = one.split == split and one.ended_us is not None and one.public is not False
            if shown and one.taint != "tainted":  # it may have its grades in its text
                yield one

    def _graded(self, split: str = SHOWN) -> list[StoredEpisode]:
        return [one for one in self._episodes(split) if one.invalid is None and one.partial is not None]

    def _found(self, name: str) -> StoredEpisode:
        """Return an episode by the beginning of its id.

        Raises:
            RefusedError: there is none that may be shown, or there are several.
        """
        matching = [one for one in self._episodes() if one.id.startswith(name)] if name else []
        if len(matching) != 1:
            raise RefusedError(f"There {'are several episodes' if matching else 'is no episode'} {name!r}.")
        return matching[0]

    @tool
    def overview(self) -> str:
        """Return the scores so far: by benchmark, agent and harness, then the families that score worst."""
        graded = self._graded()
        lines = [
            "train:",
            *_table(_row(row) for row in summarise(graded, GROUPS)),
        ]
        rows = summarise(self._graded(GATED), GROUPS)
        if gated := [row for row in rows if row["tasks"] >= FEWEST]:
            lines += ["", "dev, rounded to a standard error:"]
            lines += _table(_rounded(row) for row in gated)
        by_family = defaultdict[str, list[StoredEpisode]](list)
        for one in graded:
            by_family[f"{one.benchmark} {family(one.task, one.domain)}"].append(one)
        worst = sorted(by_family.items(), key=lambda item: _partial(item[1]))[:20]
        lines += ["", "train, the families with the lowest scores:"]
        lines += _table([name, f"partial {_partial(of):.2f}", f"{len(of)} episodes"] for name, of in worst)
        return "\n".join(lines)

    @tool
    def episodes(
        self, task: str = "", outcome: Literal["any", "solved", "failed"] = "any", limit: Limit = 20
    ) -> str:
        """List episodes of train, the newest first.

        Args:
            task: only tasks whose id begins with this.
            outcome: which ones; failed are those that are not wholly solved.
        """
        wanted = {"any": (True, False), "solved": (True,), "failed": (False,)}[outcome]
        found = [one for one in self._graded() if one.task.startswith(task) and bool(one.strict) in wanted]
        found.sort(key=lambda one: -one.started_us)
        return "\n".join(_table(_listed(one) for one in found[:limit])) + f"\n{len(found)} episodes match."

    @tool
    def search(self, words: str, limit: Limit = 10) -> str:
        """Search in what was said, called and returned in episodes of train.

        Args:
            words: all of them must be there, or words that begin with them.
        """
        self._index.refresh(WAIT_SECONDS)
        shown = [one.id for one in self._episodes()]
        hits = self._index.search(words, limit, among=shown)
        lines = [
            f"{hit.episode} {hit.task} message {hit.position} {hit.kind}: "
            f"{' '.join(hit.excerpt.replace(MARK, '**').replace(UNMARK, '**').split())}"
            for hit in hits
        ]
        unfinished = "" if self._index.complete else "\nThe index is still being made: search again later."
        return ("\n".join(lines) or "Nothing was found.") + unfinished

    @tool
    def episode(self, id: str, first: Position = 0, turns: Limit = 40, effects: bool = False) -> str:
        """Return an episode of train: its score and its conversation.

        Args:
            id: its id, or the beginning of it.
            first: the number of the first message.
            turns: how many messages.
            effects: also what each call did to the goals of the task, which a replay finds out: progress,
                neutral, setback, broke_guardrail, error or repeated_error.
        """
        stored = self._found(id)
        path = self._library.path(stored.run)
        with RunReader(path) as reader:
            whole = trajectory(reader, stored)
            checks = reader.assertions(stored.id) if self._reveal else []
        lines = [" ".join(_listed(stored))]
        lines += [f"{'held' if one.get('passed') else 'failed'}: {one.get('name')}" for one in checks]
        steps, problem = self._effects(path, whole) if effects else ({}, "")
        lines += [problem] if problem else []
        turn = 0
        for number, message in enumerate(whole.messages[: first + turns]):
            turn += message.role == "assistant"
            if number >= first:
                lines += ["", *_said(number, turn, message, steps)]
        if (left := len(whole.messages) - first - turns) > 0:
            lines.append(f"\n{left} more messages.")
        return "\n".join(lines)

    def _effects(self, path: Path, conversation: Trajectory) -> tuple[dict[str, str], str]:
        """Return the effects of calls by their ids, and why they are unknown."""
        try:
            replayed = replay_of(path, conversation.id)
        except BenchError as error:
            return {}, f"The effects of calls are unknown: {error}"
        if not replayed.same:
            return {}, "The effects of calls are unknown: a replay gives other results."
        found = {}
        for _, call, step in labelled(conversation, replayed):
            changed = [f"{name} {'holds' if holds else 'fails'} now" for _, name, holds in step.changed]
            found[call.id] = ", ".join([step.label, *(changed if self._reveal else [])])
        return found, ""

    @tool
    def failures(self, by: Literal["tool", "error", "family"] = "tool", limit: Limit = 20) -> str:
        """Count what went wrong in episodes of train, with examples.

        Args:
            by: tool: failed calls of each tool; error: the same texts of errors, without numbers and names;
                family: tasks that were not solved.
        """
        found = defaultdict[str, _Failures](_Failures)
        if by == "family":
            for one in self._graded():
                group = found[f"{one.benchmark} {family(one.task, one.domain)}"]
                group.calls += 1
                if not one.strict:
                    group.add(one.id)
        else:
            for episode, name, text, failed in self._calls():
                group = found[name if by == "tool" else general(text) if failed else ""]
                group.calls += 1
                if failed:
                    group.add(episode)
        worst = sorted(found.items(), key=lambda item: -item[1].failed)[:limit]
        of = "episodes" if by == "family" else "calls"
        return "\n".join(
            _table(
                [_share(group, of, by), name, f"in {' '.join(group.examples)}"]
                for name, group in worst
                if group.failed
            )
        )

    @tool
    def flips(self, before: str, after: str, limit: Limit = 50) -> str:
        """Return the tasks of train that one run or harness solved and another did not.

        Args:
            before: a run's id, or a harness as NAME@VERSION.
            after: likewise.
        """
        sides = [self._side(name) for name in (before, after)]
        common = sorted(sides[0].keys() & sides[1].keys())
        gained = [task for task in common if _solved(sides[1][task]) and not _solved(sides[0][task])]
        lost = [task for task in common if _solved(sides[0][task]) and not _solved(sides[1][task])]
        lines = [f"{len(common)} common tasks, {len(gained)} gained, {len(lost)} lost"]
        for word, tasks in (("gained", gained), ("lost", lost)):
            lines += _table(
                [word, task, f"{before}: {sides[0][task][-1].id}", f"{after}: {sides[1][task][-1].id}"]
                for task in tasks[:limit]
            )
        return "\n".join(lines)

    def _side(self, name: str) -> dict[str, list[StoredEpisode]]:
        found = defaultdict[str, list[StoredEpisode]](list)
        known = set[str]()
        for one in self._graded():
            names = {one.run, _harness_of(one)} - {""}
            known |= names
            if name in names:
                found[f"{one.benchmark} {one.task}"].append(one)
        if not found:
            raise RefusedError(f"No episode of train is of {name!r}{suggestion(name, known)}.")
        return found

    @tool
    def lineage(self) -> str:
        """Return harnesses and models in the order of their first episode, with their scores on train."""
        found = dict[tuple[str, ...], list[StoredEpisode]]()
        for one in sorted(self._graded(), key=lambda one: one.started_us):
            name = " ".join(filter(None, (one.agent, one.model, _harness_of(one) or "no harness")))
            found.setdefault((name, *_options_of(one)), []).append(one)
        return "\n".join(
            _table(
                [*names, f"partial {_partial(of):.2f}", f"{len(of)} episodes"] for names, of in found.items()
            )
        )

    @tool
    def harness(self, version: str, path: str = "") -> str:
        """Return a file of a harness that was recorded.

        Args:
            version: NAME@VERSION, as `lineage` lists it.
            path: the file; without it, the names of all files.
        """
        known = (one.settings.harness for one in self._episodes())
        stored = next((one for one in known if one is not None and str(one) == version), None)
        if stored is None:
            raise RefusedError(f"There is no harness {version!r}.")
        if not path:
            return "\n".join(stored.files)
        if path not in stored.files:
            raise RefusedError(f"{version} has no file {path!r}{suggestion(path, stored.files)}.")
        return stored.files[path]

    def _calls(self) -> Iterator[tuple[str, str, str, bool]]:
        """Yield `(episode, tool, text of the result, whether it failed)` of every call that may be shown."""
        shown = defaultdict[str, list[str]](list)
        for one in self._episodes():
            shown[one.run].append(one.id)
        for run, episodes in shown.items():
            try:
                with RunReader(self._library.path(run)) as reader:
                    for episode in episodes:
                        for call in reader.calls(episode):
                            yield episode, call.tool, call.text, call.is_error
            except StorageError:
                continue


READS = frozenset(one.name for one in Experience.toolset)
"""Tools that change nothing."""


def _share(group: _Failures, of: str, by: str) -> str:
    return f"{group.failed} {of}" if by == "error" else f"{group.failed} of {group.calls} {of}"


def _solved(attempts: Sequence[StoredEpisode]) -> bool:
    return 2 * sum(bool(one.strict) for one in attempts) > len(attempts)


def _partial(episodes: Sequence[StoredEpisode]) -> float:
    return sum(one.partial or 0.0 for one in episodes) / len(episodes)


def _harness_of(episode: StoredEpisode) -> str:
    return str(episode.settings.harness or "")


def _options_of(episode: StoredEpisode) -> list[str]:
    """Return the options of the agent, such as `effort=high`."""
    return [f"{name}={value}" for name, value in sorted(episode.settings.options.items())]


def _row(row: dict[str, Any]) -> list[str]:
    scores = [f"{what} {row[what]:.2f}" for what in ("partial", "strict")]
    return [_name(row), *scores, f"{row['episodes']} episodes"]


def _rounded(row: dict[str, Any]) -> list[str]:
    """Return a row whose score is a multiple of the largest standard error that so many tasks can have."""
    step = 0.5 / math.sqrt(row["tasks"])
    return [_name(row), f"partial about {min(1.0, round(row['partial'] / step) * step):.2f} ± {step:.2f}"]


def _name(row: dict[str, Any]) -> str:
    return " ".join(str(row[name]) for name in GROUPS if row[name])


def _listed(one: StoredEpisode) -> list[str]:
    score = f"invalid: {one.invalid}" if one.partial is None else f"partial {one.partial:.2f}"
    ended = "" if one.termination in (None, "agent_exit") else f", ended by {one.termination}"
    calls = f"{one.calls} calls, {one.failed_calls} failed{ended}"
    return [one.id, one.benchmark, one.task, score, "solved" if one.strict else "not solved", calls]


def _said(number: int, turn: int, message: Message, effects: Mapping[str, str]) -> Iterator[str]:
    """Yield the lines of a message. Its number and its turn are those of the viewer's page."""
    failed = " (error)" if message.is_error else ""
    of_turn = f", turn {turn}" if message.role == "assistant" else ""
    yield f"[{number}] {message.role}{f' {message.name}' if message.name else ''}{of_turn}{failed}"
    if message.reasoning:
        yield _cut(f"(reasoning) {message.reasoning}")
    if message.content:
        yield _cut(message.content)
    for call in message.tool_calls:
        effect = f" [{effects[call.id]}]" if call.id in effects else ""
        arguments = json.dumps(call.function.arguments, ensure_ascii=False)
        yield _cut(f"-> {call.function.name} {arguments}") + effect


def _cut(text: str) -> str:
    left = len(text) - MOST_TEXT
    return text if left <= 0 else f"{text[:MOST_TEXT]}\n[{left} more characters]"


def _table(rows: Iterable[Sequence[str]]) -> list[str]:
    return [" | ".join(row) for row in rows] or ["(none)"]
