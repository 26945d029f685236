"""`mcp-bench push` and `mcp-bench pull`: copies of runs in shared storage."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.recorder.storage.copies import Progress
    from mcp_bench.recorder.storage.place import Manifest

PUSH = """\b
Examples:
  mcp-bench push run_01kbf3x9qv2m8t0 s3://my-bucket/mcp-bench
  mcp-bench push run_01kbf3x9qv2m8t0 run_01kbf4a1cd7w5e2 /mnt/share/runs
  mcp-bench push --run-tag baseline gs://my-bucket/mcp-bench
"""
PULL = """\b
Examples:
  mcp-bench pull s3://my-bucket/mcp-bench --list
  mcp-bench pull run_01kbf3x9qv2m8t0 s3://my-bucket/mcp-bench
  MCP_BENCH_HOME=~/mirror mcp-bench pull s3://my-bucket/mcp-bench
"""
as_json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.command(epilog=PUSH)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.argument("url", metavar="URL")
@click.option(
    "--run-tag", "run_tags", metavar="TAG", multiple=True, help="Push the runs with this tag (repeatable)."
)
@click.option("--force", is_flag=True, help="Replace a copy there that is no earlier state of the run.")
@as_json_option
def push(runs: tuple[str, ...], url: str, run_tags: tuple[str, ...], force: bool, as_json: bool) -> None:
    """Copy runs to a bucket, a server or a folder.

    URL is a folder or any URL of fsspec, such as s3://, gs:// or smb://; the login is that of its library.
    The copy has the grades and the logs, so only people who may see grades should be able to read it. In a
    folder, only you can. The home's key is not copied. Typed again after an interruption, it goes on where it
    stopped. A run that was continued replaces its earlier copy. A copy that is no earlier state of the run,
    as far as this home knows, is kept, and the exit code is 1.
    """
    from mcp_bench.recorder.runs.find import run_paths
    from mcp_bench.recorder.storage.copies import push as push_run
    from mcp_bench.recorder.storage.place import Place
    from mcp_bench.servers.errors import WrongUseError

    if not runs and not run_tags:
        raise WrongUseError("name the runs to push, or a tag with --run-tag")
    place, paths = Place(url), run_paths(runs, tags=run_tags)
    _copy_all(
        [path.name for path in paths],
        "pushed",
        lambda run, progress: push_run(
            next(path for path in paths if path.name == run), place, progress, force=force
        ),
        as_json=as_json,
    )


@click.command(epilog=PULL)
@click.argument("runs", nargs=-1, metavar="[RUN]...")
@click.argument("url", metavar="URL")
@click.option("--list", "only_list", is_flag=True, help="List the runs there, and copy nothing.")
@as_json_option
def pull(runs: tuple[str, ...], url: str, only_list: bool, as_json: bool) -> None:
    """Copy runs from shared storage into the home.

    Takes the named runs, or all. Every piece is checked against its hash. Report and export read a pulled run
    like any other. `mcp-bench verify` checks it with the key of the home that recorded it: `--key FILE`
    elsewhere. Runs that are here already are left as they are; if one differs from the copy, that is said,
    and the exit code is 1. Typed again after an interruption, it goes on where it stopped.
    """
    from mcp_bench.recorder.runs.names import run_id
    from mcp_bench.recorder.storage.copies import pull as pull_run
    from mcp_bench.recorder.storage.place import Place
    from mcp_bench.servers.errors import WrongUseError
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    place = Place(url)
    there = place.runs()
    if not there and not only_list:
        raise WrongUseError(f"there are no runs at {url}")
    wanted = [run_id(run, there) for run in runs] or there
    if only_list:
        if not there:
            click.echo(sanitize_line(f"there are no runs at {url}"), err=True)
        click.echo(json.dumps({"runs": wanted}) if as_json else "\n".join(wanted), nl=as_json or bool(wanted))
        return
    _copy_all(wanted, "pulled", lambda run, progress: pull_run(run, place, progress), as_json=as_json)


def _copy_all(
    runs: Sequence[str],
    done: str,
    copy: Callable[[str, Progress], tuple[Manifest, int]],
    *,
    as_json: bool,
) -> None:
    from rich.console import Console
    from rich.filesize import decimal
    from rich.progress import DownloadColumn, Progress, TextColumn, TransferSpeedColumn

    from mcp_bench.recorder.storage.copies import OtherCopyError
    from mcp_bench.servers.terminal.live import is_live
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    results: list[dict[str, Any]] = []
    left: list[dict[str, str]] = []
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not is_live(console)) as shown:
        for run in runs:
            bar = shown.add_task(run, total=None)
            try:
                manifest, moved = copy(run, lambda size, bar=bar: shown.advance(bar, size))  # type: ignore[misc]
            except OtherCopyError as error:
                left.append({"run": run, "detail": str(error)})
                click.echo(sanitize_line(str(error)), err=True)
                continue
            finally:
                shown.remove_task(bar)
            results.append({"run": run, "bytes": manifest.size, "moved": moved, "files": len(manifest.files)})
            if not as_json:
                click.echo(sanitize_line(f"{done} {run}  {decimal(manifest.size)}, {decimal(moved)} moved"))
    if as_json:
        click.echo(json.dumps({done: results} | ({"left": left} if left else {})))
    if left:
        raise click.exceptions.Exit(1)
