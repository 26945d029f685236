"""The tables of docs/benchmarks/elsewhere.md about benchmarks from elsewhere and games, from code and runs.

    mcp-bench record --agent oracle --benchmark tetris --split test      (and so on, in the same home)
    python benchmarks/learning/world_table.py [--home DIR] [BENCHMARK ...]

Tasks, tools, splits, verdicts and licences are what the benchmarks say; sizes are those of the environments
in the home; strict scores, tools of a task and seconds are of the longest run of each agent in the home.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from mcp_bench.recorder.conversations.user_turns import REPLY_TOOL
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.environments.cli import megabytes
from mcp_bench.servers.environments.places import folder
from mcp_bench.servers.errors import UnknownNameError
from mcp_bench.servers.home import home, use_home
from mcp_bench.servers.needs import needed_role
from mcp_bench.servers.registry import load

NAMES = (
    "agentdojo",
    "automationbench",
    "bfcl",
    "game-2048",
    "gymnasium",
    "minigrid",
    "reasoning-gym",
    "scienceworld",
    "tau2",
    "tetris",
    "textarena",
)
SPLITS = ("train", "dev", "test")
ENDLESS = 1500
"""A split with more tasks counts as endless."""


class Played(NamedTuple):
    """The longest run of a benchmark by one agent."""

    split: str
    episodes: int
    strict: int
    partial: float
    """Mean of the graded episodes."""
    seconds: float
    """Median of an episode."""
    tools: tuple[int, int]
    """Of a task, at least and at most."""

    def __str__(self) -> str:
        return f"{self.strict} of {self.episodes} ({self.split})"


def facts(name: str) -> list[str]:
    """Return the cells of a benchmark: tasks by split, verdict, licence, installed size."""
    benchmark: Benchmark = load("benchmark", name)
    licence = str(getattr(benchmark, "licence", "")) or "ours"
    if (missing := getattr(benchmark, "missing", None)) and missing():
        return ["not installed here", "", licence, ""]
    counts, roles = [], dict[str, set[str]]()
    for split in SPLITS:
        try:
            tasks = list(islice(benchmark.tasks(split), ENDLESS + 1))
        except UnknownNameError:  # it has no such split
            tasks = []
        counts.append("endless" if len(tasks) > ENDLESS else f"{len(tasks):,}" if tasks else "-")
        for task in tasks:
            roles.setdefault(task.domain, set()).update(
                role for need in task.needs if (role := needed_role(need))
            )
    asked = {role for found in roles.values() for role in found}
    certain = sorted(domain for domain, found in roles.items() if not found)
    verdict = (
        "certain"
        if not asked
        else f"certain in {', '.join(certain)}, else a model is the {' and '.join(asked)}"
    )
    place = folder(name)
    size = f"{megabytes(place):,} MB" if place.exists() else "with mcp-bench"
    return [", ".join(counts), verdict, licence, size]


def runs(name: str, agent: str) -> Iterator[Played]:
    """Yield the complete runs of a benchmark by an agent in the home."""
    for path in sorted((home() / "runs").glob("run_*")):
        with RunReader(path) as reader:
            summary = reader.summary()
            if summary is None or (summary.benchmark, summary.agent) != (name, agent):
                continue
            episodes = [one for one in reader.episodes() if one.ended_us is not None]
            if not episodes or summary.done < summary.planned:
                continue
            tools = [
                sum(tool.function.name != REPLY_TOOL for tool in reader.tools(one.id)) for one in episodes
            ]
            found = {one.split for one in episodes}
            known = [split for split in SPLITS if split in found]
            named = "all" if found == set(SPLITS) else " and ".join([*known, *sorted(found - set(known))])
            yield Played(
                named,
                len(episodes),
                sum(one.strict is True for one in episodes),
                statistics.fmean(one.partial or 0.0 for one in episodes),
                statistics.median(one.seconds or 0.0 for one in episodes),
                (min(tools), max(tools)),
            )


def longest(name: str, agent: str) -> Played | None:
    return max(runs(name, agent), key=lambda one: one.episodes, default=None)


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for row in (head, ["---"] * len(head), *rows):
        print(f"| {' | '.join(row)} |")
    print()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", metavar="BENCHMARK", help=", ".join(NAMES))
    parser.add_argument("--home", type=Path, help="Where the runs are. Default: $MCP_BENCH_HOME.")
    chosen = parser.parse_args()
    with use_home(chosen.home or home()):
        first, second, third = [], [], []
        for name in chosen.names or NAMES:
            print(f"{name} ...", file=sys.stderr)
            tasks, verdict, licence, size = facts(name)
            played, idle, wild = (longest(name, agent) for agent in ("oracle", "noop", "random"))
            tools = "-" if played is None else "-".join(map(str, dict.fromkeys(played.tools)))
            first.append([f"`{name}`", tasks, tools, verdict])
            seconds = "-" if played is None else f"{played.seconds:.2f}"
            second.append([f"`{name}`", "-" if played is None else str(played), seconds, licence, size])
            luck = "-" if wild is None else f"{wild.partial:.3f}, {wild}"
            third.append([f"`{name}`", "-" if idle is None else str(idle), luck])
        table(["benchmark", "tasks in train, dev, test", "tools of a task", "verdict"], first)
        table(["benchmark", "oracle over MCP, strict", "seconds an episode", "licence", "installed"], second)
        table(["benchmark", "no-op over MCP, strict", "random calls: partial, strict"], third)


if __name__ == "__main__":
    main()
