"""`mcp-bench report`: scores of recordings."""

from __future__ import annotations

import json
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcp_bench.recorder.cli.run_options import NOTHING, run_options, runs_argument

if TYPE_CHECKING:
    from mcp_bench.recorder.errors import StorageError
    from mcp_bench.recorder.runs.reader import StoredEpisode
    from mcp_bench.recorder.runs.run_summary import RunSummary


BY = "agent,model,benchmark,split"
SCORE = "score"
"""What `--compare` can be by, besides groups."""
SHOWN = 10
"""Runs that are not complete, as many as are listed."""
CHECKED_BYTES = 16 << 20
"""Of their databases: so much is verified, the newest first, before it is advised to resume one. It takes a
second, and `record --resume` verifies its run in any case."""

EPILOG = """\b
Examples:
  mcp-bench report
  mcp-bench report --by agent,domain
  mcp-bench report run_01kbf3x9qv2m8t0 --json
  mcp-bench report --run-tag baseline
  mcp-bench report --compare codex claude-code
  mcp-bench report --compare agent=chat,model=base agent=chat,model=tuned
  mcp-bench report --compare codex claude-code --by score
  mcp-bench report --html report.html --by agent,model
  mcp-bench report --html loop.html --loop loops/20260101-120000
  mcp-bench report --matrix weekly
"""


@click.command(epilog=EPILOG)
@runs_argument
@run_options
@click.option(
    "--matrix",
    metavar="NAME",
    help="Report the runs of a matrix, of each cell the newest: see `mcp-bench record --config`.",
)
@click.option(
    "--by",
    default=BY,
    show_default=True,
    metavar="FIELDS",
    help="Fields to group by, separated by commas: agent, model, benchmark, split, domain. With --compare"
    " also score: compare what the benchmark measured.",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="Compare two agents, models or runs on their common tasks.",
)
@click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page with charts, and the charts as PNG files beside it (FILE.html: in FILE-png/).",
)
@click.option(
    "--loop",
    metavar="FOLDER",
    type=click.Path(path_type=Path, file_okay=False),
    help="With --html: show the turns of this loop, or the steps of this run of `mcp-bench train rl`, and the"
    " recordings that --run names.",
)
@click.option(
    "--view-url",
    "viewer",
    metavar="URL",
    help="With --html: link runs and episodes to the viewer at the address that `mcp-bench view` prints, or"
    " to the folder that `mcp-bench view --export` wrote, as seen from FILE.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON document.")
def report(
    named: tuple[str, ...],
    runs: tuple[str, ...],
    run_tags: tuple[str, ...],
    matrix: str | None,
    by: str,
    compare: tuple[str, str] | None,
    html: Path | None,
    loop: Path | None,
    viewer: str | None,
    as_json: bool,
) -> None:
    """Show scores with intervals, time, tokens and cost.

    They are those of the named runs, or of all. A line above the table has what all rows share; columns
    without any value are left out. `time` is the mean of valid episodes, `per solved` the cost divided by the
    number of strictly solved episodes.

    The 95 % intervals are a bootstrap over tasks. Invalid episodes are counted separately; `inv. as 0` shows
    the partial and strict scores with invalid episodes as failures. If most tasks have k attempts, `pass@k`
    is the probability that at least one of k attempts solves a task, and `pass^k` that all of them do.

    `score` is the mean of what the benchmark measured, if all graded episodes of a row measured the same in
    the same unit.

    --compare uses the tasks for which both sides have a valid graded episode, and lists the tasks whose
    result flipped. It compares measured scores, too, in their direction; with --by score, only those, and
    it lists the tasks on which B is better and worse. A side is the name of a run, agent or model, or a list
    such as agent=codex,model=gpt-x. An option of the agent selects, too: effort=high, or effort= for what
    was recorded without it.

    Episodes with different --tools, --home, isolation, timeout, call limit, retries, agent options, harness
    or models of roles are never in one row; --compare refuses a side that mixes them (agent=codex,tools=all
    separates, and effort=high).
    """
    from mcp_bench.recorder.runs.matrix import runs_of_matrix
    from mcp_bench.recorder.scores.conditions import CONDITIONS
    from mcp_bench.recorder.scores.scores import groups, stored_episodes
    from mcp_bench.recorder.verify.damage import EmptyRunError, readable
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.terminal.sanitize import sanitize

    runs = (*named, *runs, *(() if matrix is None else runs_of_matrix(matrix)))
    if viewer is not None and html is None:
        raise WrongUseError("--view-url makes links in a page: say --html FILE, too")
    if viewer is not None and loop is not None and not (runs or run_tags or compare):
        raise WrongUseError("--view-url links recordings, and --loop alone shows none: say --run, too")
    by_score, by = _without_score(by)
    if by_score and html is not None:
        raise WrongUseError("--by score is for the terminal: a page shows scores and measures together")
    if by_score and not compare:
        raise WrongUseError("--by score compares: say --compare A B. Of one side, the table shows the score")
    names = [*groups(by), *CONDITIONS]
    unfinished: list[RunSummary] = []
    unreadable: list[StorageError] = []
    paths: list[Path] = []
    if loop is None or runs or run_tags or compare:
        paths, unreadable = readable(runs, tags=run_tags)
    with closing(stored_episodes(paths, unfinished, unreadable)) as episodes:  # a comparison may stop early
        if html is not None or loop is not None:
            _page(episodes, names, compare, html, loop, as_json, viewer)
        elif compare:
            _compare(episodes, compare, names, as_json, by_score=by_score)
        elif not _report(episodes, names, as_json) and not (as_json or unfinished or unreadable):
            click.echo(NOTHING)
    _list_unfinished(unfinished, {path.name: path for path in paths})
    for problem in unreadable:
        click.echo(sanitize(f"Left out: {problem}"), err=True)
    if not all(isinstance(problem, EmptyRunError) for problem in unreadable):
        sys.exit(1)


def _list_unfinished(runs: Sequence[RunSummary], folders: Mapping[str, Path]) -> None:
    """List the newest of the runs that are not complete on stderr, with how to complete them."""
    from mcp_bench.recorder.verify.damage import size, why_not_resumed
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    spare, lines = CHECKED_BYTES, []
    for run in reversed(runs[-SHOWN:]):
        why = None
        if path := folders.get(run.id):
            needed = size(path)
            checked = needed <= spare
            spare -= needed if checked else 0
            why = why_not_resumed(path, rows=checked)
        text = f"{run.id}: {run.planned - run.done} of {run.planned} planned episodes are not done yet"
        lines.append(f"{text} ({why or f'mcp-bench record --resume {run.id}'})")
    if (older := len(runs) - len(lines)) > 0:
        runs_are = "older run is" if older == 1 else "older runs are"
        lines.append(f"{older} {runs_are} not complete, too: `mcp-bench show` lists them")
    for line in reversed(lines):
        click.echo(sanitize_line(line), err=True)


def _page(
    episodes: Iterable[StoredEpisode],
    names: list[str],
    sides: tuple[str, str] | None,
    html: Path | None,
    loop: Path | None,
    as_json: bool,
    viewer: str | None,
) -> None:
    from mcp_bench.recorder.html_report.making import kept, make_page, sections_of_loop
    from mcp_bench.recorder.html_report.page import check
    from mcp_bench.recorder.scores.comparison import compare_alike
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    if html is None:
        raise WrongUseError("--loop is shown in a page: say --html FILE, too")
    if loop is not None and as_json:
        raise WrongUseError("--json has no loops: use `mcp-bench loop --show FOLDER --json`")
    check(html)
    loop_sections = sections_of_loop(loop) if loop is not None else []
    read = kept(episodes)
    found = compare_alike(read, *sides, names) if sides else None
    notes = _accepted({episode.run for episode in read})
    pictures = make_page(html, read, names, found, loop, loop_sections, notes, viewer)
    if as_json:
        from mcp_bench.recorder.scores.scores import summarise
        from mcp_bench.recorder.verify.accept import with_accepted

        click.echo(json.dumps(found or with_accepted(summarise(read, names))))
    where = f", and {len(pictures)} pictures in {pictures[0].parent}" if pictures else ""
    click.echo(sanitize_line(f"Written: {html}{where}"), err=as_json)


def _report(episodes: Iterable[StoredEpisode], names: list[str], as_json: bool) -> bool:
    """Print the scores; return whether there are any."""
    from mcp_bench.recorder.cli.score_table import print_scores
    from mcp_bench.recorder.scores.scores import mixes_versions, summarise
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    rows = summarise(episodes, names)
    if as_json:
        from mcp_bench.recorder.verify.accept import with_accepted

        click.echo(json.dumps(with_accepted(rows)))
    elif rows:
        print_scores(rows, names)
        for line in _accepted({run for row in rows for run in row["runs"]}):
            click.echo(line)
        for row in rows:
            if row["model_never_answered"]:
                whose = " ".join(str(row[name]) for name in ("agent", "model", "benchmark") if row[name])
                click.echo(sanitize_line(f"{whose}: the model never answered"), err=True)
            if mixes_versions(row):
                click.echo(
                    sanitize_line(
                        f"{row['benchmark']}: a row has episodes of several versions of this benchmark: "
                        "tasks or grades may differ. --run separates them"
                    ),
                    err=True,
                )
    return bool(rows)


def _accepted(runs: Collection[str]) -> list[str]:
    """Return a line for each run of which an earlier copy was accepted: later episodes may be lost."""
    from mcp_bench.recorder.verify.accept import accepted_runs
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    return [
        sanitize_line(
            f"{run}: a later state may be lost: this copy was accepted on {when} (mcp-bench verify)"
        )
        for run, when in accepted_runs(runs).items()
    ]


def _without_score(by: str) -> tuple[bool, str]:
    """Return whether `--by` has the word score, and its other names; the usual ones if there are none."""
    names = [name.strip() for name in by.split(",")]
    others = [name for name in names if name != SCORE]
    return len(others) < len(names), ",".join(others) or BY


def _compare(
    episodes: Iterable[StoredEpisode],
    sides: tuple[str, str],
    names: list[str],
    as_json: bool,
    *,
    by_score: bool,
) -> None:
    from mcp_bench.recorder.cli.comparison_table import print_comparison
    from mcp_bench.recorder.scores.comparison import compare_alike

    read: set[str] = set()

    def noted() -> Iterator[StoredEpisode]:
        for episode in episodes:
            read.add(episode.run)
            yield episode

    found = compare_alike(noted(), *sides, names)
    if as_json:
        click.echo(json.dumps(found))
    else:
        print_comparison(found, by_score=by_score)
        for line in _accepted(read):
            click.echo(line)
