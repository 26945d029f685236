"""`mcp-bench verify`: check that recordings have not been changed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcp_bench.recorder.cli.run_options import NOTHING, run_options, runs_argument

if TYPE_CHECKING:
    from mcp_bench.recorder.verify.verify import Verdict

SHOWN = 20
"""Findings of a run that are listed on a terminal. --json has all."""

EPILOG = """\b
Examples:
  mcp-bench verify
  mcp-bench verify run_01kbf3x9qv2m8t0 --json
  mcp-bench verify --run-tag baseline
  mcp-bench verify --key worker.key          runs from another machine, with the key of that machine
  mcp-bench verify --accept run_01kbf3x9qv2m8t0     a run that you have restored from a backup
"""


@click.command(epilog=EPILOG)
@runs_argument
@run_options
@click.option(
    "--key",
    "key_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Key that the runs were recorded with, if they come from another home: its file `key`.",
)
@click.option(
    "--accept",
    "accepted",
    multiple=True,
    metavar="RUN",
    help="Accept this run as it is, although the ledger has a later state of it or does not know it "
    "(repeatable).",
)
@click.option("--yes", is_flag=True, help="With --accept: do not ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def verify(
    named: tuple[str, ...],
    runs: tuple[str, ...],
    run_tags: tuple[str, ...],
    key_file: Path | None,
    accepted: tuple[str, ...],
    yes: bool,
    as_json: bool,
) -> None:
    """Check that recordings have not been changed.

    Finds every row of the named runs, or of all, that was edited, removed, added or moved, every change of
    the tables themselves, and, by the ledger of the home, every run whose folder is gone or is an earlier
    copy of itself. The exit code is 0 if every run is unchanged, and 1 if a run was changed or cannot be
    verified. A run cannot be verified if it was recorded with another key, if its writer was killed so that
    its end is not sealed, or if it cannot be read.

    A run that you restored from a backup is an earlier copy of itself. --accept enters in the ledger that
    you accept this copy; `verify` and `report` say so from then on. It asks first, or needs --yes. Only a
    whole copy can be accepted, never a changed row.
    """
    chosen = (*named, *runs)
    if accepted:
        if chosen or run_tags or key_file:
            raise click.UsageError("--accept names the runs itself: leave out other runs, tags and keys")
        verdicts = _accept(accepted, yes, as_json)
    elif yes:
        raise click.UsageError("--yes goes with --accept")
    else:
        verdicts = _verified(chosen, run_tags, key_file, as_json)
    if as_json:
        click.echo(json.dumps([document(verdict) for verdict in verdicts]))
    elif not verdicts:
        click.echo(NOTHING)
    sys.exit(0 if all(verdict.state == "verified" for verdict in verdicts) else 1)


def _verified(
    runs: tuple[str, ...], tags: tuple[str, ...], key_file: Path | None, as_json: bool
) -> list[Verdict]:
    """Verify runs, and print each verdict as it is there."""
    from mcp_bench.recorder.verify.home import verify_home

    verdicts = []
    for verdict in verify_home(runs, key_file, tags=tags):
        verdicts.append(verdict)
        if not as_json:
            show(verdict)
    return verdicts


def _accept(runs: tuple[str, ...], yes: bool, as_json: bool) -> list[Verdict]:
    """Show what is accepted, ask, and accept it."""
    from mcp_bench.recorder.runs.find import run_paths
    from mcp_bench.recorder.verify.accept import accept, to_accept
    from mcp_bench.servers.errors import WrongUseError

    found = [to_accept(path) for path in run_paths(runs)]
    if not yes:
        for verdict in found:
            show(verdict, err=True)
        if as_json or not sys.stdin.isatty():
            raise WrongUseError("nothing was accepted: without a terminal to ask on, --accept needs --yes")
        click.echo("What was recorded after this copy is lost, and the ledger keeps that.", err=True)
        which = "this copy" if len(found) == 1 else f"these {len(found)} copies"
        click.confirm(f"Accept {which}?", abort=True, err=True)
    verdicts = [accept(verdict) for verdict in found]
    if not as_json:
        for verdict in verdicts:
            show(verdict)
    return verdicts


def show(verdict: Verdict, *, err: bool = False) -> None:
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    color = {"verified": "green", "open": "yellow", "other key": "yellow", "unreadable": "yellow"}.get(
        verdict.state, "red"
    )
    detail = f": {verdict.detail}" if verdict.detail else ""
    if verdict.state == "verified":
        facts = [f"{sum(verdict.rows.values())} rows"]
        facts += [f"format {verdict.format}"] if verdict.format == 1 else []
        facts += ["older than the ledger"] if verdict.ledger == "older" else []
        facts += [verdict.accepted] if verdict.accepted else []
        detail = f" ({', '.join(facts)}){detail}"
    click.echo(
        f"{sanitize_line(verdict.run)}  " + click.style(verdict.state, fg=color) + sanitize_line(detail),
        err=err,
    )
    for finding in verdict.findings[:SHOWN]:
        place = finding.place
        within = f" of {place.episode}" if place.episode else ""
        because = f": {finding.detail}" if finding.detail else ""
        click.echo(sanitize_line(f"  {finding.change:<8}{place.table} {place.key}{within}{because}"), err=err)
    if more := len(verdict.findings) - SHOWN:
        click.echo(f"  and {more} more (--json)" if more > 0 else "", nl=more > 0, err=err)


def document(verdict: Verdict) -> dict[str, Any]:
    return {
        "run": verdict.run,
        "path": str(verdict.path),
        "verdict": verdict.state,
        "detail": verdict.detail or None,
        "key": verdict.key,
        "format": verdict.format,
        "ledger": verdict.ledger,
        "accepted": verdict.accepted or None,
        "rows": verdict.rows,
        "findings": [
            {
                "table": finding.place.table,
                "row": finding.place.key,
                "episode": finding.place.episode,
                "change": finding.change,
                "detail": finding.detail or None,
            }
            for finding in verdict.findings
        ],
    }
