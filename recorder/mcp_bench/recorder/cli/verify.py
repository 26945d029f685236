"""`mcp-bench verify`: check that recordings have not been changed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.store.keys import Key
    from mcp_bench.recorder.verify.verify import Verdict

SHOWN = 20
"""Findings of a run that are listed on a terminal. --json has all."""

EPILOG = """\b
Examples:
  mcp-bench verify
  mcp-bench verify run_01kbf3x9qv2m8t0 --json
  mcp-bench verify --key worker.key          runs from another machine, with the key of that machine
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.option(
    "--key",
    "key_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Key that the runs were recorded with, if they come from another home: its file `key`.",
)
@click.option("--json", "as_json", is_flag=True, help="Print a JSON document.")
def verify(runs: tuple[str, ...], key_file: Path | None, as_json: bool) -> None:
    """Check that recordings have not been changed.

    Finds every row of the named runs, or of all, that was edited, removed, added or moved, every change of
    the tables themselves, and, by the ledger of the home, every run whose folder is gone or is an earlier
    copy of itself. The exit code is 0 if every run is unchanged, and 1 if a run was changed or cannot be
    verified. A run cannot be verified if it was recorded with another key, if its writer was killed so that
    its end is not sealed, or if it cannot be read.
    """
    verdicts = []
    for verdict in _verdicts(runs, key_file):
        verdicts.append(verdict)
        if not as_json:
            show(verdict)
    if as_json:
        click.echo(json.dumps([document(verdict) for verdict in verdicts]))
    elif not verdicts:
        click.echo("no recordings yet. Make some: mcp-bench record --agent oracle --limit 5")
    sys.exit(0 if all(verdict.state == "verified" for verdict in verdicts) else 1)


def _verdicts(runs: tuple[str, ...], key_file: Path | None) -> Iterator[Verdict]:
    from mcp_bench.recorder.paths import home, runs_dir
    from mcp_bench.recorder.store.keys import key_path, read_key
    from mcp_bench.recorder.store.ledger import NAME, Ledger
    from mcp_bench.recorder.store.reader import run_paths
    from mcp_bench.recorder.store.run_folder import RECORDINGS
    from mcp_bench.recorder.verify.ledger_check import LedgerCheck
    from mcp_bench.recorder.verify.verify import verify as verify_run
    from mcp_bench.recorder.verify.verify import verify_ledger

    own = read_key(key_path()) if key_path().exists() else None
    key: Key | None = read_key(key_file) if key_file else own
    ledger = LedgerCheck(None if key is None else Ledger(home() / NAME, key), own=key == own)
    present = {path.parent.name for path in runs_dir().glob(f"*/{RECORDINGS}")}
    gone = {run for run, _ in ledger.missing(present)}  # `verify_ledger` names them
    named = [run for run in runs if run not in gone]
    for path in run_paths(named) if named or not runs else ():
        if path.name not in gone:
            yield verify_run(path, key, ledger)
    yield from verify_ledger(ledger, home(), runs)


def show(verdict: Verdict) -> None:
    from mcp_bench.servers.sanitize import sanitize_line

    color = {"verified": "green", "open": "yellow", "other key": "yellow", "unreadable": "yellow"}.get(
        verdict.state, "red"
    )
    detail = f": {verdict.detail}" if verdict.detail else ""
    if verdict.state == "verified":
        facts = [f"{sum(verdict.rows.values())} rows"]
        facts += [f"format {verdict.format}"] if verdict.format == 1 else []
        facts += ["older than the ledger"] if verdict.ledger == "older" else []
        detail = f" ({', '.join(facts)}){detail}"
    click.echo(
        f"{sanitize_line(verdict.run)}  " + click.style(verdict.state, fg=color) + sanitize_line(detail)
    )
    for finding in verdict.findings[:SHOWN]:
        place = finding.place
        within = f" of {place.episode}" if place.episode else ""
        because = f": {finding.detail}" if finding.detail else ""
        click.echo(sanitize_line(f"  {finding.change:<8}{place.table} {place.key}{within}{because}"))
    if more := len(verdict.findings) - SHOWN:
        click.echo(f"  and {more} more (--json)" if more > 0 else "", nl=more > 0)


def document(verdict: Verdict) -> dict[str, Any]:
    return {
        "run": verdict.run,
        "path": str(verdict.path),
        "verdict": verdict.state,
        "detail": verdict.detail or None,
        "key": verdict.key,
        "format": verdict.format,
        "ledger": verdict.ledger,
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
