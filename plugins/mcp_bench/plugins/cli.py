"""`mcp-bench agents`: list the agents, and which of them are on this machine."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.plugins.contracts import Capabilities

EPILOG = """\b
Examples:
  mcp-bench agents
  mcp-bench agents --json
"""


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document, with each agent's options.")
def agents(as_json: bool) -> None:
    """List the agents, what each can do, and how to install it."""
    from mcp_bench.servers.registry import registered
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    rows = [describe(name) for name in registered("agent")]
    if as_json:
        click.echo(json.dumps(rows, indent=2))
        return
    width = max((len(row["agent"]) for row in rows), default=0)
    for row in rows:
        state = row["version"] if row["installed"] else "not installed"
        click.echo(sanitize_line(f"{row['agent']:<{width}}  {state}  {row['summary']}".rstrip()))
        indent = " " * (width + 2)
        if row["capabilities"] and (words := capability_words(row["capabilities"])):
            click.echo(f"{indent}{', '.join(words)}")
        for option, meaning in row["options"].items():
            click.echo(f"{indent}--agent-option {option}=...  {meaning}")
        if row["problem"]:
            click.echo(indent + sanitize_line(row["problem"]))


def describe(name: str) -> dict[str, Any]:
    """Return one agent as a JSON object. A broken plugin must not hide the others."""
    from dataclasses import asdict

    from mcp_bench.servers.errors import BenchError
    from mcp_bench.servers.registry import load

    row: dict[str, Any] = {
        "agent": name,
        "installed": False,
        "version": None,
        "executable": None,
        "summary": "",
        "capabilities": {},
        "options": {},
        "problem": None,
    }
    try:
        agent = load("agent", name)()
        capabilities: Capabilities = agent.capabilities
        row |= {
            "summary": agent.summary,
            "capabilities": asdict(capabilities),
            "options": dict(agent.options),
        }
        found = agent.find(os.environ)
        row |= {"installed": True, "version": found.version, "executable": found.executable}
    except BenchError as error:
        row["problem"] = str(error)
    except Exception as error:  # third-party code
        row["problem"] = f"its plugin is broken: {type(error).__name__}: {error}"
    return row


def capability_words(capabilities: dict[str, bool]) -> list[str]:
    """Return the words for capabilities that differ from the default."""
    words = {
        "reports_usage": "reports tokens",
        "reports_cost": "reports cost",
        "reports_reasoning": "reports reasoning",
        "needs_model": "needs --model",
        "plays_reference": "is given the solution",
        "http": "speaks HTTP",
        "native": "works in your own HOME (--home native)",
    }
    kept = [] if capabilities["builtin_tools_off"] else ["keeps its built-in tools"]
    return [*kept, *(text for key, text in words.items() if capabilities[key])]
