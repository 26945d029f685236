"""`mcp-bench regrade`: replay recordings and grade them again."""

from __future__ import annotations

import json
import sys
from collections import Counter
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.recorder.cli.run_options import run_options, runs_argument

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mcp_bench.bridge.replay.regrade import Graded, Regraded
    from mcp_bench.bridge.replay.replay import Difference

SHOWN = 10
"""Maximum number of differences of an episode to print; --json has all."""
EXCERPT = 100
"""Characters of a value to print on either side of a difference."""
LEAD = 20
"""Characters to print before the first one that differs."""

EPILOG = """\b
Examples:
  mcp-bench regrade
  mcp-bench regrade run_01kbf3x9qv2m8t0 --jobs 8
  mcp-bench regrade --json | jq '.[] | select(.status == "differs")'
"""


@click.command(epilog=EPILOG)
@runs_argument
@run_options
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    metavar="J",
    default=2,
    show_default=True,
    help="Number of episodes to replay in parallel.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def regrade(
    named: tuple[str, ...], runs: tuple[str, ...], run_tags: tuple[str, ...], jobs: int, as_json: bool
) -> None:
    """Replay recorded calls on new worlds, and grade again.

    Runs the calls of every graded episode in order, on a new world with the same task, seed and benchmark
    version. Compares results, final state and grade with the recording. Takes all runs by default. Needs no
    agent and overwrites nothing.

    Exits with 0 if everything is the same, with 1 if anything differs or cannot be replayed.
    """
    import anyio

    from mcp_bench.bridge.replay.regrade import regrade_all
    from mcp_bench.servers.hardening import harden

    harden()
    episodes, whole = graded((*named, *runs), run_tags)
    with progress(len(episodes)) as advance, redirect_stdout(sys.stderr):  # benchmarks may print
        outcomes = anyio.run(regrade_all, episodes, jobs, lambda _: advance())
    if as_json:
        click.echo(json.dumps([document(outcome) for outcome in outcomes]))
    else:
        for outcome in outcomes:
            show(outcome)
        counts = Counter(outcome.status for outcome in outcomes)
        totals = ", ".join(f"{count} {status}" for status, count in counts.items())
        click.echo(f"{len(outcomes)} graded episodes: {totals}" if outcomes else "no graded episodes")
    sys.exit(0 if whole and all(outcome.status == "same" for outcome in outcomes) else 1)


def graded(runs: Sequence[str], tags: Sequence[str]) -> tuple[list[Graded], bool]:
    """Return the graded episodes, and whether no run is damaged. A run that is left out is named.

    Raises:
        StorageError: a run is damaged, and nothing is left.
    """
    from mcp_bench.bridge.replay.regrade import graded_episodes
    from mcp_bench.recorder.errors import StorageError
    from mcp_bench.recorder.verify.damage import EmptyRunError, readable
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    paths, problems = readable(runs, tags=tags)
    found = []
    for path in paths:
        try:
            found += list(graded_episodes([path]))
        except StorageError as error:
            problems.append(error)
    damaged = [problem for problem in problems if not isinstance(problem, EmptyRunError)]
    if damaged and not found:
        raise damaged[0]
    for problem in problems:
        click.echo(sanitize_line(f"left out: {problem}"), err=True)
    return found, not damaged


@contextmanager
def progress(total: int) -> Iterator[Callable[[], None]]:
    """Show a progress bar on a terminal; yield its step function."""
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from mcp_bench.servers.terminal.live import is_live

    console = Console(stderr=True)
    with Progress(
        TextColumn("regrading"),
        *Progress.get_default_columns()[1:2],
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        disable=not is_live(console),
    ) as shown:
        task = shown.add_task("regrading", total=total)
        yield lambda: shown.advance(task)


def show(outcome: Regraded) -> None:
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    episode = outcome.graded.episode
    color = {"same": "green", "differs": "red"}.get(outcome.status, "yellow")
    calls = f"{outcome.calls} calls" + (f", {outcome.uncompared} not compared" if outcome.uncompared else "")
    result = f": {outcome.detail}" if outcome.detail else f"  {calls}, {grades(outcome)}"
    head = sanitize_line(f"{episode.id}  {episode.task}  ")
    click.echo(head + click.style(outcome.status, fg=color) + sanitize_line(result))
    for difference in outcome.differences[:SHOWN]:
        then, now = excerpts(difference.then, difference.now)
        call = f"call {difference.call} {difference.tool}: " if difference.call is not None else ""
        click.echo(sanitize_line(f"  {call}{difference.what} {difference.where}"))
        click.echo(sanitize_line(f"    recorded  {then}"))
        click.echo(sanitize_line(f"    now       {now}"))
    if (more := len(outcome.differences) - SHOWN) > 0:
        click.echo(f"  and {more} more (--json)")


def grades(outcome: Regraded) -> str:
    episode, grade = outcome.graded.episode, outcome.grade
    assert grade is not None  # noqa: S101 - a replayed episode has one
    then = f"partial {episode.partial:.3f}, {'strict' if episode.strict else 'failed'}"
    now = f"partial {grade.partial:.3f}, {'strict' if grade.strict else 'failed'}"
    return then if then == now else f"recorded {then}, now {now}"


def excerpts(then: Any, now: Any) -> tuple[str, str]:
    """Return both values, starting shortly before the first character that differs."""
    texts = [value if isinstance(value, str) else json.dumps(value) for value in (then, now)]
    pairs = zip(*texts, strict=False)
    same = next((place for place, (a, b) in enumerate(pairs) if a != b), min(map(len, texts)))
    start = max(same - LEAD, 0)
    lead = "..." if start else ""
    first, second = (
        lead + text[start : start + EXCERPT] + ("..." if len(text) > start + EXCERPT else "")
        for text in texts
    )
    return first, second


def document(outcome: Regraded) -> dict[str, Any]:
    episode, grade = outcome.graded.episode, outcome.grade
    return {
        "run": episode.run,
        "episode": episode.id,
        "benchmark": episode.benchmark,
        "task": episode.task,
        "status": outcome.status,
        "detail": outcome.detail or None,
        "calls": outcome.calls,
        "uncompared": outcome.uncompared,
        "grade_then": {"partial": episode.partial, "strict": episode.strict},
        "grade_now": {"partial": grade.partial, "strict": grade.strict} if grade else None,
        "differences": [difference_document(difference) for difference in outcome.differences],
    }


def difference_document(difference: Difference) -> dict[str, Any]:
    return {
        "what": difference.what,
        "where": difference.where,
        "call": difference.call,
        "tool": difference.tool,
        "recorded": difference.then,
        "now": difference.now,
    }
