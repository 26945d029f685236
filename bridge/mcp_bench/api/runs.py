"""One run: its settings, its results, its episodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from mcp_bench.api.episodes import Call, Episode, calls_of, episode_of
from mcp_bench.api.frame import Frame
from mcp_bench.api.names import Names, several

if TYPE_CHECKING:
    from mcp_bench.recorder.records import RunInfo
    from mcp_bench.recorder.verify.verify import Verdict

Number = TypeVar("Number", int, float)


@dataclass(frozen=True)
class Summary:
    """The result of a run so far: the last attempt at every planned episode counts."""

    episodes: int
    """Planned."""
    done: int
    """Graded or, in a run without grades, ended validly."""
    invalid: int
    solved: int
    tainted: int
    """Episodes whose agent looked for its grade."""
    partial: float | None
    """Mean of the graded episodes; None without any."""
    strict: float | None
    """Share of the graded episodes that are solved."""
    tool_calls: int
    input_tokens: int | None
    """Sums of what the agents reported; None if none did."""
    output_tokens: int | None
    cost_usd: float | None


class Run:
    """A stored run."""

    def __init__(self, path: Path, *, stopped_by: str | None = None) -> None:
        """Open the run in the folder `path`."""
        self.id = path.name
        self.path = path
        self.stopped_by = stopped_by
        """Why `record` or `resume`, which returned this, ended early: `signal`, or what tripped the circuit
        breaker. None if every episode had its turn, and for a run that was opened from a home."""
        self._info: RunInfo | None = None

    def __repr__(self) -> str:
        from mcp_bench.recorder.errors import StorageError

        try:
            found = self.summary
        except StorageError:  # deleted, or damaged
            return f"<Run {self.id}>"
        score = "" if found.partial is None else f", partial {found.partial:.3f}, strict {found.strict:.3f}"
        on = f"{self.info.agent} on {self.info.benchmark}"
        return f"<Run {self.id}: {on}, {found.done} of {found.episodes} episodes done{score}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Run) and self.path == other.path

    def __hash__(self) -> int:
        return hash(self.path)

    @property
    def info(self) -> RunInfo:
        """What was recorded, with which settings, and the plan."""
        from mcp_bench.recorder.runs.reader import RunReader

        if self._info is None:
            with RunReader(self.path) as reader:
                self._info = reader.info()
        return self._info

    @property
    def tags(self) -> tuple[str, ...]:
        """Your tags of the run, read anew each time: see `annotate`."""
        from mcp_bench.recorder.runs.annotations import read_annotations

        return read_annotations(self.path).tags

    @property
    def note(self) -> str:
        """Your note on the run, read anew each time: see `annotate`."""
        from mcp_bench.recorder.runs.annotations import read_annotations

        return read_annotations(self.path).note

    def annotate(self, *, add_tags: Names = (), remove_tags: Names = (), note: str | None = None) -> None:
        """Change the tags and the note of the run: `mcp-bench annotate`. An empty note removes it.

        Raises:
            WrongUseError: a tag has other characters than a tag can have, or a text is too long.
            StorageError: the file cannot be written.
        """
        from mcp_bench.recorder.runs.annotations import annotate

        annotate(self.path, add=several(add_tags), remove=several(remove_tags), note=note)

    @property
    def summary(self) -> Summary:
        """The result so far, read anew each time."""
        episodes = self.episodes()
        graded = [one for one in episodes if one.partial is not None]
        valid = [one for one in episodes if one.outcome in ("solved", "failed", "not graded")]
        count = len(graded)
        solved = sum(bool(one.strict) for one in graded)
        return Summary(
            episodes=len(self.info.plan) or len(episodes),
            done=count if self.info.graded else len(valid),
            invalid=sum(one.invalid is not None for one in episodes),
            solved=solved,
            tainted=sum(one.taint == "tainted" for one in valid),
            partial=sum(one.partial or 0 for one in graded) / count if count else None,
            strict=solved / count if count else None,
            tool_calls=sum(one.tool_calls for one in episodes),
            input_tokens=_sum([one.input_tokens for one in episodes]),
            output_tokens=_sum([one.output_tokens for one in episodes]),
            cost_usd=_sum([one.cost_usd for one in episodes]),
        )

    def episodes(self) -> Frame[Episode]:
        """Return the last attempt at every planned episode, in the order of their start."""
        from mcp_bench.recorder.runs.reader import RunReader

        with RunReader(self.path) as reader:
            return Frame(Episode, [episode_of(stored, self.path) for stored in reader.episodes()])

    def calls(self) -> Frame[Call]:
        """Return the tool calls of these episodes."""
        from mcp_bench.recorder.runs.reader import RunReader

        episodes = self.episodes()
        with RunReader(self.path) as reader:
            return Frame(Call, [call for one in episodes for call in calls_of(one, reader)])

    def verify(self) -> Verdict:
        """Check that the recordings have not been changed since they were made."""
        from mcp_bench.recorder.verify.home import verify_home
        from mcp_bench.servers.home import use_home

        with use_home(self.path.parent.parent):
            (verdict,) = verify_home([self.id])
        return verdict


def _sum(values: Sequence[Number | None]) -> Number | None:
    known = [value for value in values if value is not None]
    return sum(known[1:], known[0]) if known else None
