"""The section about attempts that measured several versions: how far the best one had come, run by run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from statistics import fmean

from mcp_bench.recorder.counted import counted
from mcp_bench.recorder.html_report.sections import (
    Cell,
    Line,
    LineChart,
    Role,
    Score,
    Section,
    Table,
)
from mcp_bench.recorder.runs.reader import StoredEpisode

ROLES: tuple[Role, ...] = ("partial", "strict", "fixed", "broken", "loss")
TITLE = "Best version over runs"


def searched(groups: Mapping[str, Sequence[StoredEpisode]]) -> Section | None:
    """Return a section with a line for each group, by its label; None if no attempt measured two versions.

    A line is the mean over valid episodes. An attempt that ended earlier counts with the best that it had.
    """
    lines: dict[str, list[list[float]]] = {}
    for label, episodes in groups.items():
        usable = [episode.submissions for episode in episodes if episode.invalid is None]
        if found := [list(accumulate(shares, max)) for shares in usable if shares]:
            lines[label] = found
    if max((len(one) for found in lines.values() for one in found), default=0) < 2:
        return None
    known, most = list(lines.items()), len(ROLES)
    charts = [_chart(dict(known[first : first + most])) for first in range(0, len(known), most)]
    words = "0 is the baseline and 1 is par, as the search measured it: the graded score is another one."
    return Section(TITLE, [words], charts=charts)


def _chart(lines: Mapping[str, Sequence[Sequence[float]]]) -> LineChart:
    means = {label: list(_means(found)) for label, found in lines.items()}
    length = max(map(len, means.values()))
    cells: list[list[Cell]] = [
        [number + 1, *(mean[number] if number < len(mean) else None for mean in means.values())]
        for number in range(length)
    ]
    episodes = counted(sum(map(len, lines.values())), "episode")
    return LineChart(
        name="search",
        title=TITLE,
        says=f"Lines: means of the best so far over valid episodes; {episodes}; 0: baseline, 1: par.",
        table=Table(TITLE, ["run", *means], cells),
        x_label="run",
        lines=[
            Line(label, role, range(1, len(mean) + 1), [Score(one) for one in mean])
            for (label, mean), role in zip(means.items(), ROLES, strict=False)
        ],
        share=False,
    )


def _means(attempts: Sequence[Sequence[float]]) -> Iterator[float]:
    for number in range(max(map(len, attempts))):
        yield fmean(attempt[min(number, len(attempt) - 1)] for attempt in attempts)
