"""`mcp-bench show`: list recordings, or show an episode with its grade and conversation."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mcp_bench.recorder.cli.run_options import run_options

EPILOG = """\b
Examples:
  mcp-bench show
  mcp-bench show run_01kbf3x9qv2m8t0
  mcp-bench show ep_01kbf3x9qv2m8t0
  mcp-bench show ep_01kbf3x9qv2m8t0 --full
  mcp-bench show ep_01kbf3x9qv2m8t0 --json | jq .grade
  mcp-bench show ep_01kbf3x9qv2m8t0 --model-calls
  mcp-bench show --run-tag baseline
"""


@click.command(epilog=EPILOG, short_help="Show runs, the episodes of a run, or one episode.")
@click.argument("what", required=False, metavar="[RUN|EPISODE]")
@run_options
@click.option("--full", is_flag=True, help="Do not cut long texts, arguments and results.")
@click.option("--model-calls", is_flag=True, help="List the captured model calls of the episode.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def show(
    what: str | None,
    runs: tuple[str, ...],
    run_tags: tuple[str, ...],
    full: bool,
    model_calls: bool,
    as_json: bool,
) -> None:
    """Show all runs, the episodes of a run, or one episode with its grade and conversation.

    RUN and EPISODE are an id or a unique prefix of one. An episode's messages have a number and the seconds
    since its start. Long texts are cut to some lines, and a note says how much is hidden; --full and --json
    have everything. Control characters in text from agents and tools are escaped.

    --run and --run-tag choose the runs that are listed, and those in which EPISODE is searched for.
    """
    from mcp_bench.recorder.cli.episode_document import episode_document
    from mcp_bench.recorder.cli.listing import show_episodes, show_runs
    from mcp_bench.recorder.runs.find import find_episode, run_paths
    from mcp_bench.recorder.runs.lock import is_being_written
    from mcp_bench.recorder.runs.reader import RunReader

    if what is None and not runs and not model_calls:
        show_runs(run_tags, as_json)
        return
    paths = run_paths(runs, tags=run_tags)
    named = _runs_named(what, paths)
    if model_calls and (what is None or named):
        raise click.UsageError("--model-calls goes with an episode: name one")
    if what is None or named:
        show_episodes(named or paths, as_json)
        return
    if not what.strip():
        raise click.UsageError("the name of a run or an episode is empty")
    path, found = find_episode(what, paths)
    cut_off = not is_being_written(path)  # asked first: a call may end meanwhile
    with RunReader(path) as reader:
        if model_calls:
            from mcp_bench.recorder.cli.model_calls import show_model_calls

            show_model_calls(reader, found, as_json=as_json, cut_off=cut_off)
            return
        document = episode_document(reader, found)
    if as_json:
        click.echo(json.dumps(document))
        return
    colour = False if os.environ.get("NO_COLOR") else None  # None: if this is a terminal
    for line in _lines(document, full=full):
        click.echo(line, color=colour)


def _runs_named(what: str | None, paths: Sequence[Path]) -> list[Path]:
    """Return the run that an argument names; nothing if it can only name an episode."""
    from mcp_bench.recorder.runs.names import RUN_PREFIX, run_id

    known = {path.name: path for path in paths}
    if what is None or not (what in known or what.startswith(RUN_PREFIX)):
        return []
    return [known[run_id(what, known)]]


def _lines(document: dict[str, Any], *, full: bool) -> Iterator[str]:
    from mcp_bench.recorder.cli.episode_facts import facts, grade
    from mcp_bench.recorder.cli.folding import Folding
    from mcp_bench.recorder.cli.turns import turns

    folding = Folding(full=full)
    yield from facts(document, folding)
    yield ""
    yield from grade(document["grade"], document["calls"], folding)
    yield from turns(document, folding)
