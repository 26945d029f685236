"""An export is not to carry what is tested on."""

from __future__ import annotations

from collections.abc import Sequence

from mcp_bench.recorder.importers.attempt import IMPORTED
from mcp_bench.recorder.leakage.check import LeakCheck
from mcp_bench.recorder.leakage.held_out import PRIVATE
from mcp_bench.recorder.leakage.split_index import Leak, Row
from mcp_bench.recorder.store.reader import StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory
from mcp_bench.servers.contracts import ALL_SPLITS
from mcp_bench.servers.errors import BenchError

TEST = "test"
SHOWN = 10
"""Rows that a refusal names."""


class LeakError(BenchError):
    """Rows of an export are, or are like, held-out tasks; the text names them."""


def guarded(asked: Sequence[str], *, allow: bool) -> tuple[str, ...]:
    """Return the splits that an export of the splits `asked` must not leak into: `test`, unless it is asked
    for, or leaks into it are allowed, and `private`, unless it is asked for by its name."""
    test = () if allow or {TEST, ALL_SPLITS} & set(asked) else (TEST,)
    return (*test, *(() if PRIVATE in asked else (PRIVATE,)))


class Guard:
    """Looks at every row of an export."""

    def __init__(self, splits: Sequence[str]) -> None:
        self._check = LeakCheck(splits)
        self._leaks: list[tuple[str, str, Leak]] = []

    def leak(self, episode: StoredEpisode, conversation: Trajectory) -> Leak | None:
        """Return what the row of an episode tells of a held-out task."""
        return self._check.find(
            Row(
                benchmark=episode.benchmark,
                task=episode.task,
                split=episode.split,
                messages=conversation.messages,
                id=episode.id,
                split_is_sure=episode.home != IMPORTED,
            )
        )

    def note(self, episode: StoredEpisode, leak: Leak | None) -> None:
        """Keep what `leak` found, for `check`."""
        if leak is not None:
            self._leaks.append((episode.id, episode.task, leak))

    def check(self) -> None:
        """Raise LeakError where there was a leak."""
        if not self._leaks:
            return
        splits = " and ".join(sorted({leak.split for _, _, leak in self._leaks}))
        lines = [f"  {episode} ({task}): {leak.words()}" for episode, task, leak in self._leaks[:SHOWN]]
        if (more := len(self._leaks) - SHOWN) > 0:
            lines.append(f"  and {more} more")
        allow = (
            ""
            if any(leak.split == PRIVATE for _, _, leak in self._leaks)
            else ", write them all the same with `--on-leak allow`"
        )
        raise LeakError(
            f"{len(self._leaks)} rows would leak into {splits}, so nothing was written:\n"
            + "\n".join(lines)
            + f"\nLeave them out with `--on-leak drop`{allow}"
        )

    @property
    def unchecked(self) -> dict[str, str]:
        """Why rows of a benchmark could not be compared with its held-out tasks, by its name."""
        return self._check.unchecked
