"""Lists of runs and of the episodes of a run, for `mcp-bench show`."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mcp_bench.recorder.cli.run_options import NOTHING
from mcp_bench.recorder.cli.score_table import full_width
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.find import check_no_copy
from mcp_bench.recorder.runs.lock import is_being_written
from mcp_bench.recorder.runs.reader import RunReader, StoredEpisode
from mcp_bench.recorder.runs.run_summary import RunSummary
from mcp_bench.recorder.utc import utc
from mcp_bench.recorder.verify.damage import EmptyRunError, nothing_in, readable
from mcp_bench.servers.grading import Score
from mcp_bench.servers.terminal.sanitize import sanitize, sanitize_line


def show_runs(tags: Sequence[str], as_json: bool) -> None:
    """Print the runs that have all of the tags, oldest first.

    Unreadable runs, and copies of runs beside them, are listed on stderr, and the exit code is then 1.
    """
    runs: list[RunSummary] = []
    paths, problems = readable(tags=tags)
    for path in paths:
        try:
            with RunReader(path) as reader:
                if summary := reader.summary():
                    check_no_copy(path, summary.id)
                    runs.append(summary)
        except StorageError as error:
            problems.append(error)
    for problem in problems:
        click.echo(sanitize(f"Left out: {problem}"), err=True)
    if as_json:
        click.echo(json.dumps([asdict(run) for run in runs]))
    elif runs:
        rows = [
            [
                run.id,
                utc(run.created_us),
                run.agent,
                run.model or "",
                run.benchmark,
                done(run),
                ", ".join(run.tags),
                run.note.partition("\n")[0],
            ]
            for run in runs
        ]
        columns = ["run", "began (UTC)", "agent", "model", "benchmark", "done", "run tags", "note"]
        print_table(*filled(columns, rows))
    elif not problems:
        click.echo(NOTHING)
    if not all(isinstance(problem, EmptyRunError) for problem in problems):
        sys.exit(1)


def show_episodes(paths: Sequence[Path], as_json: bool) -> None:
    """Print the last attempt at every planned episode of each run, below a line about the run.

    Raises:
        StorageError: a run cannot be read, or has no rows.
    """
    documents: list[dict[str, Any]] = []
    for path in paths:
        if problem := nothing_in(path):
            raise problem
        cut_off = not is_being_written(path)  # asked first: an attempt may end meanwhile, and none begins
        with RunReader(path) as reader:
            run, episodes = reader.summary(), list(reader.episodes())
        if as_json:
            facts = (
                "id",
                "run",
                "task",
                "split",
                "agent",
                "seed",
                "repeat",
                "attempt",
                "termination",
                "invalid",
                "partial",
                "strict",
                "score",
                "calls",
                "usage",
                "started_us",
                "ended_us",
                "run_tags",
                "run_note",
            )
            documents += [{name: _plain(getattr(episode, name)) for name in facts} for episode in episodes]
            continue
        if run is not None:
            _print_run(run)
        columns = ["episode", "task", "agent", "result", "score", "calls", "time", "tokens in / out", "cost"]
        agents = {episode.agent for episode in episodes}
        rows = [
            [
                episode.id,
                episode.task,
                episode.agent if agents != {run and run.agent} else "",
                result(episode, cut_off),
                episode.score.words() if episode.score else "",
                str(episode.calls),
                "" if episode.seconds is None else f"{episode.seconds:.1f} s",
                *_spent(episode.usage or {}),
            ]
            for episode in episodes
        ]
        print_table(*filled(columns, rows))
    if as_json:
        click.echo(json.dumps(documents))


def _plain(value: Any) -> Any:
    return value.model_dump() if isinstance(value, Score) else value


def _print_run(run: RunSummary) -> None:
    model = f" with {run.model}" if run.model else ""
    tags = f", tags {', '.join(run.tags)}" if run.tags else ""
    about = f"{run.agent}{model} on {run.benchmark}, {done(run)} done, began {utc(run.created_us)} UTC"
    click.echo(sanitize_line(f"{run.id}: {about}{tags}"))
    if run.note:
        click.echo("  " + sanitize(run.note).replace("\n", "\n  "))


def _spent(usage: dict[str, Any]) -> tuple[str, str]:
    counts = [usage.get(name) for name in ("input_tokens", "output_tokens")]
    tokens = " / ".join("-" if count is None else f"{count:,}" for count in counts)
    cost = usage.get("cost_usd")
    return "" if counts == [None, None] else tokens, "" if cost is None else f"${cost:.4f}"


def filled(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[str], list[list[str]]]:
    """Return a table without the columns that are empty in all rows."""
    kept = [at for at in range(len(columns)) if not rows or any(row[at] for row in rows)]
    return [columns[at] for at in kept], [[row[at] for at in kept] for row in rows]


def done(run: RunSummary) -> str:
    return f"{run.done}/{run.planned}" if run.planned else str(run.done)


def result(episode: StoredEpisode, cut_off: bool) -> str:
    """Return the outcome of an episode in a few words.

    Args:
        episode: an attempt.
        cut_off: whether nobody records its run any more, so that one without an end never gets one.
    """
    if episode.invalid is not None:
        return f"invalid: {episode.invalid}"
    if episode.partial is None:
        return "not graded" if episode.ended_us else "cut off" if cut_off else "running"
    return f"partial {episode.partial:.2f}, {'solved' if episode.strict else 'not solved'}"


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. In a file or pipe it is printed at full width."""
    table = Table(box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(Text(sanitize_line(cell)) for cell in row))
    console = Console()
    (console if console.is_terminal else full_width(table)).print(table)
