"""`mcp-bench view`: the recordings in a browser."""

from __future__ import annotations

from pathlib import Path

import click

from mcp_bench.recorder.cli.run_options import run_options

PORT = 8807
EPILOG = """\b
Examples:
  mcp-bench view                                     open the browser on all recordings
  mcp-bench view run_01kbf3x9qv2m8t0                 ... on a run
  mcp-bench view loop                                ... on a loop, or another folder of training
  mcp-bench view train.jsonl                         ... on a data set, with why episodes were left out
  mcp-bench view --no-browser --port 0               print where it is, and open nothing
  mcp-bench view --export pages --run-tag paper      a folder of pages for a static host
"""


@click.command(epilog=EPILOG)
@click.argument("what", required=False, metavar="[RUN|EPISODE|PATH]")
@run_options
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=PORT,
    show_default=True,
    help="Port to listen on; 0 picks a free one.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--token", envvar="MCP_BENCH_TOKEN", metavar="T", help="Token to log in with. Default: the home's."
)
@click.option(
    "--training",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="Also show the loops, improvements, training runs and data sets below this folder. Repeatable.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option(
    "--export",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Write static pages to an empty folder instead, with secrets redacted.",
)
@click.option("--grades", is_flag=True, help="With --export: also show the grades of test tasks.")
def view(
    what: str | None,
    runs: tuple[str, ...],
    run_tags: tuple[str, ...],
    port: int,
    host: str,
    token: str | None,
    training: tuple[Path, ...],
    no_browser: bool,
    folder: Path | None,
    grades: bool,
) -> None:
    """Look at runs, episodes and calls in the browser.

    A run that is being recorded is shown, too. Only this machine can connect, and only a browser that was let
    in: the one that is opened, or one that shows the token in the file http-token of the home. Recordings are
    only read. RUN and EPISODE are an id or a unique prefix of one. PATH is a loop, an improvement, a training
    run or a data set; those below loops/, training/, learning/ and ablations/ of the home are found without
    it.

    With --export it writes pages of runs and episodes that need no server. They leave out private tasks and
    tasks that may not be trained on, and replace secrets as `export` does.
    """
    if folder is not None:
        from mcp_bench.bridge.viewer.static_site import write_site
        from mcp_bench.servers.terminal.sanitize import sanitize_line

        named = (*runs, *([what] if what else []))
        for line in write_site(folder, named, run_tags, test_grades=grades):
            click.echo(sanitize_line(line))
        return
    if runs or run_tags or grades:
        raise click.UsageError("--run, --run-tag and --grades go with --export")
    from mcp_bench.bridge.viewer.links import opened
    from mcp_bench.bridge.viewer.serve import serve_viewer
    from mcp_bench.recorder.paths import is_there
    from mcp_bench.servers.hardening import harden

    for place in training:
        if not is_there(place):
            raise click.BadParameter(f"{place} does not exist", param_hint="--training")
    path, place_of_it = opened(what)
    if place_of_it is not None:
        training = (*training, place_of_it)
    harden()
    serve_viewer(host, port, token, browser=not no_browser, path=path, training=training)
