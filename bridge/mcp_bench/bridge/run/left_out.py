"""Which of the chosen tasks cannot run on this machine, before the first episode."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mcp_bench.recorder.records import PlannedEpisode
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.host import needed_role
from mcp_bench.servers.needs import unmet
from mcp_bench.servers.sanitize import sanitize_line

SHOWN = 3


def that_can_run(episodes: Sequence[PlannedEpisode]) -> list[PlannedEpisode]:
    """Return the episodes whose tasks can run on this machine; say how many cannot, and why.

    Models of roles are checked apart: the operator can name them.

    Raises:
        WrongUseError: none of the tasks can run here.
    """
    kept: list[PlannedEpisode] = []
    left: dict[str, dict[str, None]] = {}
    for episode in episodes:
        why = "; ".join(unmet(need for need in episode.needs if needed_role(need) is None))
        if why:
            left.setdefault(why, {})[episode.task] = None
        else:
            kept.append(episode)
    for why, tasks in left.items():
        named = ", ".join([*tasks][:SHOWN]) + (", ..." if len(tasks) > SHOWN else "")
        count = "1 task" if len(tasks) == 1 else f"{len(tasks)} tasks"
        text = sanitize_line(f"{count} that cannot run here: {why} ({named})")
        if not kept:
            raise WrongUseError(f"nothing to do: {text}")
        click.echo(f"Left out: {text}", err=True)
    return kept
