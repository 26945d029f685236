"""A guard that keeps held-out tasks out of an export."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from mcp_bench.recorder.errors import LeakError
from mcp_bench.recorder.importers.attempt import IMPORTED
from mcp_bench.recorder.leakage.check import LeakCheck
from mcp_bench.recorder.leakage.held_out import PRIVATE
from mcp_bench.recorder.leakage.split_index import Leak, Row
from mcp_bench.recorder.runs.reader import StoredEpisode
from mcp_bench.recorder.trajectory import Trajectory
from mcp_bench.servers.contracts import ALL_SPLITS

TEST = "test"
SHOWN = 10
"""Number of rows that the error lists."""


def guarded(exported: Sequence[str], *, allow: bool) -> tuple[str, ...]:
    """Return the splits that an export must not leak into.

    These are `test`, unless it is exported itself or leaks are allowed, and `private`, unless it is exported
    by name.

    Args:
        exported: The splits to export.
        allow: Whether leaks into `test` are allowed.
    """
    test = () if allow or {TEST, ALL_SPLITS} & set(exported) else (TEST,)
    return (*test, *(() if PRIVATE in exported else (PRIVATE,)))


class Guard:
    """Checks every row of an export."""

    def __init__(self, splits: Sequence[str]) -> None:
        self._check = LeakCheck(splits)
        self._leaks: list[tuple[str, str, Leak]] = []
        self._rows: Counter[str] = Counter()
        """Number of episodes by the name of their benchmark."""

    def leak(self, episode: StoredEpisode, conversation: Trajectory) -> Leak | None:
        """Return the held-out task that the row of an episode reveals, if any.

        Instructions of a recorded task besides its prompt, which many tasks share, are not compared.
        """
        imported = episode.home == IMPORTED
        return self._check.find(
            Row(
                benchmark=episode.benchmark,
                task=episode.task,
                split=episode.split,
                messages=[one for one in conversation.messages if imported or one.role != "system"],
                id=episode.id,
                split_is_sure=not imported,
            )
        )

    def note(self, episode: StoredEpisode, leak: Leak | None) -> None:
        """Record the result of `leak` for `check`."""
        self._rows[episode.benchmark] += 1
        if leak is not None:
            self._leaks.append((episode.id, episode.task, leak))

    def check(self) -> None:
        """Refuse the export if there were leaks.

        Raises:
            LeakError: at least one row leaks.
        """
        if not self._leaks:
            return
        splits = " and ".join(sorted({leak.split for _, _, leak in self._leaks}))
        lines = [f"  {episode} ({task}): {leak.words()}" for episode, task, leak in self._leaks[:SHOWN]]
        if (more := len(self._leaks) - SHOWN) > 0:
            lines.append(f"  and {more} more")
        allow = (
            ""
            if any(leak.split == PRIVATE for _, _, leak in self._leaks)
            else ", or write them anyway with `--on-leak allow`"
        )
        raise LeakError(
            f"{len(self._leaks)} rows would leak into {splits}, so nothing was written:\n"
            + "\n".join(lines)
            + f"\nDrop them with `--on-leak drop`{allow}"
        )

    @property
    def unchecked(self) -> dict[str, str]:
        """By the name of a benchmark: why its rows could not be compared with held-out tasks."""
        return self._check.unchecked

    def facts(self) -> dict[str, Any]:
        """Return for the manifest how many episodes could not be compared, if there are any.

        The reasons are left out: they can have paths of this machine, and manifests are shared.
        """
        found = {name: self._rows[name] for name in sorted(self.unchecked) if self._rows[name]}
        return {"not_compared": found} if found else {}
