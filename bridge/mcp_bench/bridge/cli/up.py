"""`mcp-bench up`, `down` and `status`: the referee for interactive use."""

from __future__ import annotations

import os
import sys

import click

from mcp_bench.bridge.cli.options import http_options, idle_option, log_to_stderr
from mcp_bench.recorder.cli.options import finite

DOWN_SECONDS = 600.0

UP_EPILOG = """\b
Examples:
  mcp-bench up                         in the background, until `mcp-bench down`
  mcp-bench up --idle 600              tasks end after ten minutes without a call
  mcp-bench up --http 8808             also serve streamable HTTP
  mcp-bench up --foreground            in this terminal, until Ctrl-C
"""
DOWN_EPILOG = """\b
Examples:
  mcp-bench down
"""
STATUS_EPILOG = """\b
Examples:
  mcp-bench status
  mcp-bench status --json
"""


@click.command(epilog=UP_EPILOG)
@idle_option
@click.option(
    "--quit-after",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    callback=finite,
    help="Exit after this time without clients. Default: never.",
)
@click.option("--foreground", is_flag=True, help="Run in this terminal.")
@click.option("--starting", type=int, hidden=True, help="Descriptor of the lock to release once it listens.")
@http_options
def up(
    idle: float,
    quit_after: float | None,
    foreground: bool,
    starting: int | None,
    http: tuple[str, int] | None,
    token: str | None,
    max_sessions: int,
    max_body: int,
) -> None:
    """Start the referee that `mcp-bench connect` joins.

    Does nothing if one is running.

    With --http it also serves every benchmark B at /B/mcp, and named clients at /B/mcp/NAME.
    """
    from mcp_bench.bridge.interactive.paths import RefereePaths

    paths = RefereePaths()
    if foreground:
        import anyio

        from mcp_bench.bridge.interactive.http_server import HttpOptions
        from mcp_bench.bridge.interactive.server import run_referee
        from mcp_bench.servers.hardening import harden

        harden()
        paths.prepare()
        log_to_stderr("%(asctime)s %(message)s")
        options = None if http is None else HttpOptions(*http, token, max_sessions, max_body, idle)

        def listening() -> None:
            if starting is not None:
                os.close(starting)

        anyio.run(run_referee, paths, idle, quit_after, options, listening)
        return
    from mcp_bench.bridge.interactive.control import ask, ensure_up

    settings = ["--idle", str(idle)]
    settings += [] if quit_after is None else ["--quit-after", str(quit_after)]
    if http is not None:
        settings += ["--http", ":".join(map(str, http))]
        settings += ["--max-sessions", str(max_sessions), "--max-body", str(max_body)]
    started = ensure_up(paths, settings, token)
    status = ask(paths, "status" if started or quit_after is not None else "stay")
    click.echo(f"The referee is {'' if started else 'already '}up, process {status['pid']}.")
    if status["http"]:
        click.echo(f"Benchmarks are at {status['http']}.")
    given = (click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT)
    context = click.get_current_context()
    if not started and any(context.get_parameter_source(name) in given for name in context.params):
        click.echo("It keeps its options. To change them, stop it with `mcp-bench down` first.", err=True)


@click.command(epilog=DOWN_EPILOG)
def down() -> None:
    """Stop the referee. Open tasks are ended and graded first."""
    from mcp_bench.bridge.interactive.control import NotUpError, ask
    from mcp_bench.bridge.interactive.paths import RefereePaths, is_held, take
    from mcp_bench.servers.errors import BenchError

    paths = RefereePaths()
    try:
        ask(paths, "down")
    except NotUpError:
        if not is_held(paths.lock):
            click.echo("No referee is up.")
            return
    lock = take(paths.lock, DOWN_SECONDS)
    if lock is None:
        raise BenchError(f"the referee did not stop within {DOWN_SECONDS:.0f} seconds: see {paths.log}")
    os.close(lock)
    click.echo("The referee has ended.")


@click.command(epilog=STATUS_EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")
def status(as_json: bool) -> None:
    """Show the referee, its clients and their tasks.

    Exits with 1 if it is not running.
    """
    import json

    from mcp_bench.bridge.interactive.control import NotUpError, ask
    from mcp_bench.bridge.interactive.paths import RefereePaths
    from mcp_bench.recorder.utc import utc
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    try:
        found = ask(RefereePaths(), "status")
    except NotUpError as error:
        click.echo(json.dumps({"up": False}) if as_json else f"{error}: start it with `mcp-bench up`")
        sys.exit(1)
    if as_json:
        click.echo(json.dumps({"up": True, **found}))
        return
    click.echo(
        f"The referee is up: process {found['pid']}, version {found['version']}, since "
        f"{utc(found['since_us'])} UTC, {found['done']} tasks done."
    )
    if found["http"]:
        click.echo(f"Benchmarks are at {found['http']}.")
    for entry in found["entries"]:
        client = entry["client"]
        who = f"{client['name']} {client['version']}".strip() if client else "no connection yet"
        task = f"works on {entry['task']}" if entry["task"] else "no open task"
        click.echo(
            sanitize_line(
                f"  {entry['entry']}  {entry['benchmark']}  {who}  {task}, {entry['done']} done, "
                f"{entry['connections']} connected"
            )
        )
