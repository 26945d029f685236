"""`mcp-bench check-benchmark`: whether a benchmark can be trusted, for its author."""

from __future__ import annotations

import json
import sys
from contextlib import redirect_stdout
from dataclasses import asdict

import click

EPILOG = """\b
Examples:
  mcp-bench check-benchmark pantry
  mcp-bench check-benchmark pantry --limit 20
  mcp-bench check-benchmark pantry --json | jq '.findings[] | select(.verdict == "failed")'
"""
COLOURS = {"ok": "green", "warning": "yellow", "failed": "red", "not checked": "yellow"}
WIDTH = max(map(len, COLOURS))


@click.command(epilog=EPILOG)
@click.argument("benchmark")
@click.option(
    "--limit",
    type=click.IntRange(min=1),
    metavar="N",
    default=5,
    show_default=True,
    help="Tasks of each split to check.",
)
@click.option(
    "--seed", type=int, metavar="S", default=0, show_default=True, help="Seed of worlds and random calls."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def check_benchmark(benchmark: str, limit: int, seed: int, as_json: bool) -> None:
    """Check whether BENCHMARK's grades can be trusted.

    Records the oracle, an agent that does nothing and one that calls tools at random, over MCP and in a
    temporary home. Checks that references solve their tasks and doing nothing does not, that episodes replay
    exactly, that schemas are valid, that agents cannot read grades, and that splits share no tasks. Warns of
    tasks that need no look at the world. Measures the speed.

    Exits with 1 if a check failed; warnings are what an author should know.
    """
    from mcp_bench.bridge.check.check import check_benchmark as run_checks
    from mcp_bench.servers.contracts import Benchmark, BenchmarkDefaults, with_defaults
    from mcp_bench.servers.errors import MissingDependencyError
    from mcp_bench.servers.registry import load
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    found: Benchmark = load("benchmark", benchmark)
    parts = with_defaults(found, BenchmarkDefaults)
    if reason := parts.missing():
        how = f". Install it with: {parts.install}" if parts.install else ""
        raise MissingDependencyError(f"{benchmark} cannot run here: {reason}{how}")
    import logging

    logging.disable(logging.ERROR)  # tools that raise are findings; their tracebacks would hide the others
    findings = []
    with redirect_stdout(sys.stderr if as_json else sys.stdout):  # benchmarks may print
        for finding in run_checks(found, limit, seed):
            findings.append(finding)
            if as_json:
                continue
            verdict = click.style(finding.verdict.ljust(WIDTH), fg=COLOURS[finding.verdict])
            click.echo(f"{verdict}  {finding.check}: {sanitize_line(finding.summary)}")
            for reason in finding.reasons:
                click.echo(f"{'':{WIDTH}}  - {sanitize_line(reason)}")
    failed = [finding.check for finding in findings if finding.verdict == "failed"]
    warned = [finding.check for finding in findings if finding.verdict in ("warning", "not checked")]
    if as_json:
        document = {
            "benchmark": benchmark,
            "version": found.version,
            "passed": not failed,
            "findings": [asdict(finding) for finding in findings],
        }
        click.echo(json.dumps(document, indent=2))
    else:
        verdict = f"failed: {', '.join(failed)}" if failed else "passed"
        also = f"; look at: {', '.join(warned)}" if warned else ""
        click.echo(f"\n{benchmark} {found.version} {verdict}{also}")
    sys.exit(1 if failed else 0)
