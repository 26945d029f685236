"""`mcp-bench delete`: delete runs."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import NamedTuple

import click

EPILOG = """\b
Examples:
  mcp-bench delete run_01kbf3x9qv2m8t0
  mcp-bench delete run_01kbf3x9qv2m8t0 run_01kbf4a1cd7w5e2 --yes
"""


@click.command(epilog=EPILOG)
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--yes", is_flag=True, help="Delete without asking.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document. Requires --yes.")
def delete(runs: tuple[str, ...], yes: bool, as_json: bool) -> None:
    """Delete runs.

    Their folders are removed, with recordings, grades, logs and annotations. RUN is an id or a unique prefix
    of one. On a terminal it asks first; elsewhere it needs --yes.

    The ledger of the home keeps that they were deleted, so that `mcp-bench verify` does not report them as
    missing. A run that is being recorded is not deleted. Links in the folders are removed, not followed.
    """
    from mcp_bench.recorder.runs.find import run_paths
    from mcp_bench.recorder.runs.run_folder import remove_run
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    paths = run_paths(runs)
    if as_json and not yes:
        raise WrongUseError("--json does not ask: add --yes")
    contents = {path: _contents(path) for path in paths}
    if not yes:
        for path, has in contents.items():
            click.echo(sanitize_line(f"{path.name}  {has.words()}"), err=True)
        if not sys.stdin.isatty():
            raise WrongUseError("nothing was deleted: without a terminal to ask on, delete needs --yes")
        which = "this run" if len(paths) == 1 else f"these {len(paths)} runs"
        click.confirm(f"Delete {which} for good?", abort=True, err=True)
    for path, has in contents.items():
        remove_run(path)
        if not as_json:
            click.echo(sanitize_line(f"deleted {path.name}  {has.words()}"))
    if as_json:
        click.echo(json.dumps({"deleted": [path.name for path in paths]}))


class _Contents(NamedTuple):
    who: str
    episodes: int | None
    """None if the run cannot be read."""
    size: int
    """Of its files, in bytes."""

    def words(self) -> str:
        from rich.filesize import decimal

        count = {None: "damaged", 1: "1 episode"}.get(self.episodes, f"{self.episodes} episodes")
        return ", ".join(part for part in (self.who, count, decimal(self.size)) if part)


def _contents(run: Path) -> _Contents:
    from mcp_bench.recorder.errors import StorageError
    from mcp_bench.recorder.runs.reader import RunReader

    size = 0
    for folder, _, names in os.walk(run):  # does not follow links
        for name in names:
            with contextlib.suppress(OSError):  # a writer has removed it
                size += (Path(folder) / name).lstat().st_size
    try:
        with RunReader(run) as reader:
            summary = reader.summary()
            who = f"{summary.agent} on {summary.benchmark}" if summary else ""
            return _Contents(who, len(reader.episode_ids()), size)
    except StorageError:
        return _Contents("", None, size)
