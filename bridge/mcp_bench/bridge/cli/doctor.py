"""`mcp-bench doctor`: check the installation and suggest fixes."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from mcp_bench.recorder.cli.options import finite

if TYPE_CHECKING:
    from mcp_bench.bridge.doctor.diagnosis import Diagnosis

EPILOG = """\b
Examples:
  mcp-bench doctor
  mcp-bench doctor codex claude-code                  both must work
  mcp-bench doctor chat --base-url http://127.0.0.1:8000/v1
  mcp-bench doctor acp --agent-command "kimi acp"
  mcp-bench doctor --json
\b
Exits with 0 if all named agents work, or, without names, at least one agent that uses a model.
"""
COLOURS = {"ok": "green", "info": "cyan", "hint": "yellow", "unset": "yellow", "problem": "red"}


@click.command(epilog=EPILOG)
@click.argument("agents", nargs=-1, metavar="[AGENT]...")
@click.option("--base-url", metavar="URL", help="Model endpoint for the agents.")
@click.option("--agent-command", metavar="CMD", help="Command that starts the agent `acp`.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True, max=3600),
    metavar="SECONDS",
    default=60.0,
    callback=finite,
    show_default=True,
    help="Time limit for all checks together.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def doctor(
    agents: tuple[str, ...], base_url: str | None, agent_command: str | None, timeout: float, as_json: bool
) -> None:
    """Check this machine, benchmarks and agents. Suggest fixes.

    With names, check this machine and the named agents only.

    Model endpoints get one request without a key. Logins are looked up by name and never read.
    """
    import contextlib

    from mcp_bench.bridge.doctor.diagnosis import diagnose

    if agent_command and "acp" not in agents:
        agents = (*agents, "acp")
    with contextlib.redirect_stdout(sys.stderr):  # plugins may print
        diagnosis = diagnose(agents, base_url, agent_command, timeout)
    if as_json:
        click.echo(json.dumps(diagnosis.document(), indent=2))
    else:
        show(diagnosis)
    sys.exit(0 if diagnosis.well else 1)


def show(diagnosis: Diagnosis) -> None:
    for check, findings in diagnosis.results:
        click.secho(one_line(check.subject), bold=True)
        for finding in findings:
            level = click.style(f"{finding.level:<7}", fg=COLOURS[finding.level])
            click.echo(f"  {level}  {finding.check}: {one_line(finding.text)}")
            if finding.advice:
                click.echo(f"           -> {one_line(finding.advice)}")
    click.echo(f"\n{diagnosis.verdict()}")


def one_line(text: str) -> str:
    """Return other programs' output in one line that is safe for a terminal."""
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    return sanitize_line(" ".join(text.split()))
