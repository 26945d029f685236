"""The attempts that a harness may learn from: graded ones of the split train, without suspicion."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from mcp_bench.bridge.harness.world import OWN_TOOLS
from mcp_bench.recorder.conversations.load import trajectory
from mcp_bench.recorder.conversations.user_turns import REPLY_TOOL
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.scores.task_names import family
from mcp_bench.recorder.trajectory import ToolCall, Trajectory
from mcp_bench.servers.errors import UnknownNameError, WrongUseError

SPLIT = "train"
NOT_OF_THE_TASK = (*OWN_TOOLS, REPLY_TOOL)


@dataclass(frozen=True)
class Called:
    """A call and its result."""

    call: ToolCall
    result: str
    failed: bool

    @property
    def tool(self) -> str:
        return self.call.function.name


@dataclass(frozen=True)
class Attempt:
    """A graded attempt at a task."""

    episode: StoredEpisode
    conversation: Trajectory

    @property
    def task(self) -> str:
        return f"{self.episode.benchmark} {self.episode.task}"

    @property
    def family(self) -> str:
        return family(self.episode.task, self.episode.domain)

    @property
    def calls(self) -> list[Called]:
        """The calls of the benchmark's tools, with their results."""
        results = {one.tool_call_id: one for one in self.conversation.messages if one.role == "tool"}
        return [
            Called(call, results[call.id].content or "", results[call.id].is_error)
            for message in self.conversation.messages
            for call in message.tool_calls
            if call.id in results and call.function.name not in NOT_OF_THE_TASK
        ]


def read_attempts(paths: Sequence[Path], benchmark: str | None = None) -> list[Attempt]:
    """Return the attempts of some runs that may be learned from, in the order of runs and episodes.

    Left out are other splits, private tasks, tasks that forbid training, invalid and ungraded episodes, and
    those whose agent looked for its grade.

    Args:
        paths: folders of runs.
        benchmark: its name. What is learned in one benchmark means nothing in another: the same tools can be
            other ones.

    Raises:
        WrongUseError: there is none, or they are of several benchmarks and none is named.
        UnknownNameError: there is none of that benchmark.
    """
    found = [attempt for path in paths for attempt in _of_run(path)]
    if not found:
        raise WrongUseError(
            f"there is no graded episode of the split {SPLIT} to learn from. Record some: mcp-bench record "
            f"--split {SPLIT}"
        )
    names = sorted({one.episode.benchmark for one in found})
    if benchmark is None and len(names) > 1:
        raise WrongUseError(
            f"the recordings are of several benchmarks: choose --benchmark {' or '.join(names)}"
        )
    if benchmark is not None and benchmark not in names:
        raise UnknownNameError("benchmark of graded training episodes", benchmark, names)
    return [one for one in found if benchmark in (None, one.episode.benchmark)]


def _of_run(path: Path) -> Iterator[Attempt]:
    with RunReader(path) as reader:
        for one in reader.episodes():
            graded = one.ended_us is not None and one.invalid is None and one.partial is not None
            allowed = one.split == SPLIT and one.public is not False and one.trainable
            if graded and allowed and one.taint != "tainted":
                yield Attempt(one, trajectory(reader, one))
