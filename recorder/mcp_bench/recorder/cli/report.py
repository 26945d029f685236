"""`mcp-bench report`: scores of recordings."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.errors import StorageError
    from mcp_bench.recorder.store.reader import RunSummary, StoredEpisode


EPILOG = """\b
Examples:
  mcp-bench report
  mcp-bench report --by agent,domain
  mcp-bench report --run run_01kbf3x9qv2m8t0 --json
  mcp-bench report --compare codex claude-code
  mcp-bench report --compare agent=chat,model=base agent=chat,model=tuned
  mcp-bench report --html report.html --by agent,model
  mcp-bench report --html loop.html --loop loops/20260101-120000
  mcp-bench report --matrix weekly
"""


@click.command(epilog=EPILOG)
@click.option(
    "--run", "runs", multiple=True, metavar="RUN", help="Run to report (repeatable). Default: all runs."
)
@click.option(
    "--matrix",
    metavar="NAME",
    help="Report the runs of a matrix, of each cell the newest: see `mcp-bench record --config`.",
)
@click.option(
    "--by",
    default="agent,model,benchmark,split",
    show_default=True,
    metavar="FIELDS",
    help="Fields to group by, separated by commas: agent, model, benchmark, split, domain.",
)
@click.option(
    "--compare",
    nargs=2,
    metavar="A B",
    help="Compare two agents, models or runs on their common tasks.",
)
@click.option(
    "--html", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
    help="Write a page with charts, and the charts as PNG files beside it (FILE.html: in FILE-png/).",
)  # fmt: skip
@click.option(
    "--loop", metavar="FOLDER", type=click.Path(path_type=Path, file_okay=False),
    help="With --html: show the turns of this loop, and the recordings that --run names.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print the result as a JSON document.")
def report(runs: tuple[str, ...], matrix: str | None, by: str, compare: tuple[str, str] | None,
           html: Path | None, loop: Path | None, as_json: bool) -> None:  # fmt: skip
    """Show scores and their confidence intervals.

    The 95 % intervals are a bootstrap over tasks. Invalid episodes are counted separately; `inv. as 0` shows
    the partial and strict scores with invalid episodes as failures. If most tasks have k attempts, `pass@k`
    is the probability that at least one of k attempts solves a task, and `pass^k` that all of them do.

    --compare uses the tasks for which both sides have a valid graded episode, and lists the tasks whose
    result flipped. A side is the name of a run, agent or model, or a list such as agent=codex,model=gpt-x.

    Episodes with different --tools, --home, isolation, timeout, call limit, retries or agent options are
    never in one row; --compare refuses a side that mixes them (agent=codex,tools=all separates).
    """
    from mcp_bench.recorder.scores.scores import CONDITIONS, groups, stored_episodes
    from mcp_bench.recorder.store.matrix_runs import runs_of_matrix
    from mcp_bench.recorder.store.reader import run_paths
    from mcp_bench.servers.sanitize import sanitize, sanitize_line

    if matrix is not None:
        runs = (*runs, *runs_of_matrix(matrix))
    names = [*groups(by), *CONDITIONS]
    unfinished: list[RunSummary] = []
    unreadable: list[StorageError] = []
    episodes: Iterable[StoredEpisode] = ()
    if loop is None or runs or compare:
        episodes = stored_episodes(run_paths(runs), unfinished, unreadable)
    if html is not None or loop is not None:
        _page(episodes, names, compare, html, loop, as_json)
    elif compare:
        _compare(episodes, compare, names, as_json)
    else:
        _report(episodes, names, as_json)
    for run in unfinished:
        click.echo(
            sanitize_line(
                f"{run.id}: {run.planned - run.done} of {run.planned} planned episodes are not done yet"
                f" (mcp-bench record --resume {run.id})"
            ),
            err=True,
        )
    for problem in unreadable:
        click.echo(sanitize(f"Left out: {problem}"), err=True)
    if unreadable:
        sys.exit(1)


def _page(
    episodes: Iterable[StoredEpisode], names: list[str], sides: tuple[str, str] | None, html: Path | None,
    loop: Path | None, as_json: bool,
) -> None:  # fmt: skip
    from mcp_bench.recorder.html_report.making import kept, make_page, sections_of_loop
    from mcp_bench.recorder.html_report.page import check
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.sanitize import sanitize_line

    if html is None:
        raise WrongUseError("--loop is shown in a page: say --html FILE, too")
    if loop is not None and as_json:
        raise WrongUseError("--json has no loops: use `mcp-bench loop --show FOLDER --json`")
    check(html)
    loop_sections = sections_of_loop(loop) if loop is not None else []
    read = kept(episodes)
    found = _found(read, sides, names) if sides else None
    pictures = make_page(html, read, names, found, loop, loop_sections)
    if as_json:
        from mcp_bench.recorder.scores.scores import summarise

        click.echo(json.dumps(found or summarise(read, names)))
    where = f", and {len(pictures)} pictures in {pictures[0].parent}" if pictures else ""
    click.echo(sanitize_line(f"Written: {html}{where}"), err=as_json)


def _report(episodes: Iterable[StoredEpisode], names: list[str], as_json: bool) -> None:
    from mcp_bench.recorder.cli.score_table import print_scores
    from mcp_bench.recorder.scores.scores import summarise

    rows = summarise(episodes, names)
    if as_json:
        click.echo(json.dumps(rows))
    elif rows:
        print_scores(rows, names)
    else:
        click.echo("no recordings yet. Make some: mcp-bench record --agent oracle --limit 5")


def _compare(
    episodes: Iterable[StoredEpisode], sides: tuple[str, str], names: list[str], as_json: bool
) -> None:
    from mcp_bench.recorder.cli.comparison_table import print_comparison

    found = _found(episodes, sides, names)
    if as_json:
        click.echo(json.dumps(found))
    else:
        print_comparison(found)


def _found(episodes: Iterable[StoredEpisode], sides: tuple[str, str], names: Sequence[str]) -> dict[str, Any]:
    from mcp_bench.recorder.scores.comparison import FACTS, compare
    from mcp_bench.recorder.scores.scores import conditions, conditions_that_differ
    from mcp_bench.servers.errors import WrongUseError

    found = compare(episodes, *sides, by=[name for name in names if name in FACTS])
    for side in "ab":
        rows = found["conditions"][side]
        if differ := conditions_that_differ(rows):
            listed = "; ".join(conditions(row, differ) for row in rows)
            raise WrongUseError(
                f"the side {found[side]!r} has episodes under different conditions ({listed}). Name a run, "
                "or separate them with agent=A,tools=T,isolation=I,home=H"
            )
    return found
