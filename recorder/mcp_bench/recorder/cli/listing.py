"""Lists of runs and of the episodes of a run, for `mcp-bench show`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.store.reader import RunReader, RunSummary, StoredEpisode
from mcp_bench.recorder.verify.damage import EmptyRunError, nothing_in, readable
from mcp_bench.servers.sanitize import sanitize, sanitize_line


def show_runs(as_json: bool) -> None:
    """Print every run, oldest first. Unreadable runs are listed on stderr, and the exit code is then 1."""
    runs: list[RunSummary] = []
    paths, problems = readable()
    for path in paths:
        try:
            with RunReader(path) as reader:
                runs += [summary] if (summary := reader.summary()) else []
        except StorageError as error:
            problems.append(error)
    for problem in problems:
        click.echo(sanitize(f"Left out: {problem}"), err=True)
    if as_json:
        click.echo(json.dumps([asdict(run) for run in runs]))
    elif runs:
        print_table(
            ["run", "began (UTC)", "agent", "benchmark", "done"],
            [[run.id, moment(run.created_us), run.agent, run.benchmark, done(run)] for run in runs],
        )
    elif not problems:
        click.echo("no recordings yet. Make some: mcp-bench record --agent oracle --limit 5")
    if not all(isinstance(problem, EmptyRunError) for problem in problems):
        sys.exit(1)


def show_episodes(path: Path, as_json: bool) -> None:
    """Print the last attempt at every planned episode of a run.

    Raises:
        StorageError: it cannot be read, or has no rows.
    """
    if problem := nothing_in(path):
        raise problem
    with RunReader(path) as reader:
        episodes = list(reader.episodes())
    if as_json:
        facts = ("id", "task", "split", "agent", "seed", "repeat", "attempt", "termination", "invalid",
                 "partial", "strict", "calls", "started_us", "ended_us")  # fmt: skip
        click.echo(json.dumps([{name: getattr(episode, name) for name in facts} for episode in episodes]))
        return
    print_table(
        ["episode", "task", "agent", "result", "calls", "seconds"],
        [
            [
                episode.id,
                episode.task,
                episode.agent,
                result(episode),
                str(episode.calls),
                "" if episode.ended_us is None else f"{(episode.ended_us - episode.started_us) / 1e6:.1f}",
            ]
            for episode in episodes
        ],
    )


def done(run: RunSummary) -> str:
    return f"{run.done}/{run.planned}" if run.planned else str(run.done)


def moment(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds / 1e6, tz=UTC):%Y-%m-%d %H:%M:%S}"


def result(episode: StoredEpisode) -> str:
    """Return the outcome of an episode in a few words."""
    if episode.invalid is not None:
        return f"invalid: {episode.invalid}"
    if episode.partial is None:
        return "not graded" if episode.ended_us else "running"
    return f"partial {episode.partial:.2f}, {'solved' if episode.strict else 'not solved'}"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. In a file or pipe it is printed at full width."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(sanitize_line(cell)) for cell in row))
    console = Console()
    needed = Console(width=10_000).measure(table).maximum
    (console if console.is_terminal else Console(width=needed)).print(table)
