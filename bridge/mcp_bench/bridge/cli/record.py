"""`mcp-bench record`: run an agent on tasks, record every call, and grade the final state."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any, TextIO

import click

from mcp_bench.bridge.cli.options import (
    http_url,
    ids_in_files,
    key_values,
    limits,
    refuse_given,
    was_given,
)
from mcp_bench.bridge.engines.count_or_auto import CountOrAuto
from mcp_bench.bridge.engines.parallel import PARALLEL, Parallel, Processes
from mcp_bench.bridge.run.choices import OF_BENCHMARKS, URLS, Choices, default
from mcp_bench.recorder.cli.options import options_of
from mcp_bench.servers.terminal.help_sections import SectionedCommand

AGAIN = ("max_cost", "run_tags", "note", "base_url")
"""What can be given with --resume."""

SECTIONS = {
    "Agent": "agent model base-url agent-option agent-command harness tools home capture-llm",
    "Tasks": "benchmark path split task tag limit repeat seed server prompt prompt-file",
    "Models that play a part in a world": (
        "user-model user-base-url judge-model judge-base-url opponent-model opponent-base-url prices"
        " role-limit"
    ),
    "Limits": "timeout max-calls max-cost retries retry-wait agent-limit",
    "Isolation": "isolation require-isolation sandbox",
    "Processes and machines": "jobs referees ray address",
    "The run": "run-tag note durability resume config config-schema dry-run json",
}
EPILOG = """\b
Examples:
  mcp-bench record --agent codex --limit 5
  mcp-bench record --agent claude-code --split test --jobs 4 --max-cost 20
  mcp-bench record --agent oracle --repeat 100 --jobs 16 --referees 2
  mcp-bench record --agent oracle --repeat 100 --jobs 64 --ray --address head:6379
  mcp-bench record --agent chat --model my-model --base-url http://127.0.0.1:8000/v1
  mcp-bench record --agent codex --limit 1 --capture-llm
  mcp-bench record --agent claude-code --limit 5 --tools all --require-isolation landlock
  mcp-bench record --agent acp --agent-command "gemini --acp" --model gemini-3-pro
  mcp-bench record --agent oracle --limit 20 --agent-option drop=0.3
  mcp-bench record --agent oracle --task @ids.txt --repeat 4
  mcp-bench record --agent codex --harness my-harness --split dev
  mcp-bench record --benchmark tau2 --tag retail --agent codex --user-model gpt-4.1 \\
      --prices prices.yaml --role-limit cost=0.50
  mcp-bench record --benchmark harbor --path ~/my-tasks --agent codex
  mcp-bench record --server "npx -y @modelcontextprotocol/server-everything" \\
      --agent codex --prompt "Echo hello, then add 2 and 3."
  mcp-bench record --agent codex --limit 20 --run-tag baseline --note "before the new prompt"
  mcp-bench record --resume run_1m7yq0k21j2zyrv
  mcp-bench record --resume run_1m7yq0k21j2zyrv --max-cost 30
  mcp-bench record --config matrix.yaml --dry-run
  mcp-bench record --config matrix.yaml
"""


def print_schema(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    from mcp_bench.bridge.cli.record_matrix import show_schema

    if value and not ctx.resilient_parsing:
        show_schema(ctx)


@click.command(cls=SectionedCommand, sections=SECTIONS, epilog=EPILOG)
@options_of(
    Choices,
    tasks=ids_in_files,
    options=key_values,
    agent_limits=limits,
    role_limits=limits,
    prices=click.Path(dir_okay=False, exists=True),
    harness=click.Path(file_okay=False),
    **dict.fromkeys(URLS, http_url),
)
@click.option(
    "--path",
    metavar="DIR",
    help="The folder of the tasks, for a benchmark like harbor: short for --benchmark NAME:DIR.",
)
@click.option(
    "--prompt-file",
    "prompt_files",
    type=click.File(encoding="utf-8"),
    metavar="F",
    multiple=True,
    help="Like --prompt, from a file; - is stdin (repeatable).",
)
@click.option(
    "--agent-command",
    metavar="CMD",
    help="Command that starts an agent with the Agent Client Protocol; short for --agent-option command=CMD.",
)
@options_of(Parallel, referees=CountOrAuto())
@click.option("--resume", metavar="RUN", help="Resume a stopped run with its own settings.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Record a matrix: every combination of agents, models and tasks of a YAML file. Typed again, it "
    "goes on where it stopped.",
)
@click.option(
    "--config-schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=print_schema,
    help="Print the JSON schema of such a file, for editors.",
)
@click.option("--dry-run", is_flag=True, help="Check everything, print the plan, and record nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary as one JSON document on stdout.")
@click.pass_context
def record(
    ctx: click.Context,
    /,
    resume: str | None,
    config: Path | None,
    dry_run: bool,
    jobs: int,
    referees: Processes,
    ray: bool,
    address: str | None,
    as_json: bool,
    **choices: Any,
) -> None:
    """Run an agent on tasks. Every call is recorded; the final state is graded where the agent cannot see it.

    Options, login, isolation and, as far as it is known, the model endpoint are checked before the first
    episode. The endpoint is asked for its list of models.

    Exits with 0 if every episode is valid, with 1 if some are invalid or the run was stopped. With --config,
    exits with 0 if every cell is complete.
    """
    from mcp_bench.bridge.cli.record_matrix import record_file, show_run
    from mcp_bench.bridge.cli.settings.defaults import forget_others, project_line
    from mcp_bench.bridge.run.run import run_and_report
    from mcp_bench.bridge.run.setup import resume_run, start_run
    from mcp_bench.servers.hardening import harden
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    harden()

    if resume is None:
        forget_others(ctx, choices)
        if line := project_line(ctx):
            click.echo(sanitize_line(line), err=True)
    if config is not None:
        refuse_given(ctx, {*choices, "resume", *PARALLEL}, "--config takes all settings from its file")
        sys.exit(record_file(ctx, config, choices_of, as_json=as_json, dry_run=dry_run))
    parallel = Parallel(jobs, referees, ray, address)
    if resume is None:
        chosen = choices_of(ctx, choices)
        if dry_run:
            show_run(chosen, as_json=as_json, elsewhere=parallel.ray)
            return
        with redirect_stdout(sys.stderr):  # benchmarks and plugins may print
            setup, run = start_run(chosen, elsewhere=parallel.ray)
    else:
        own = {*choices, "dry_run"} - set(AGAIN)
        refuse_given(ctx, own, "--resume keeps the run's own settings")
        for name in AGAIN:
            if not was_given(ctx, name):
                choices[name] = () if name == "run_tags" else None  # a file's defaults are for new runs
        with redirect_stdout(sys.stderr):
            setup, run = resume_run(resume, **{name: choices[name] for name in AGAIN})
    with run:
        code = run_and_report(setup, run, parallel, choices["max_cost"], as_json)
    sys.exit(code)


def choices_of(ctx: click.Context, values: dict[str, Any]) -> Choices:
    """Return what to record, from the values of this command's options."""
    from mcp_bench.bridge.cli.settings.defaults import forget_others

    forget_others(ctx, values)
    if not values["agent"]:
        raise click.UsageError("name an agent with --agent (see `mcp-bench agents`)")
    refuse_mixed(ctx)
    if (path := values.pop("path")) is not None:
        values["benchmark"] = f"{values['benchmark']}:{path}"
    if values["server"] is not None:  # none of these was typed
        values |= {name: default(name) for name in OF_BENCHMARKS}
    if (command := values.pop("agent_command")) is not None:
        values["options"]["command"] = command
    files = values.pop("prompt_files")
    prompts = [*values.pop("prompts"), *(text(file) for file in files)]
    return Choices(**values, prompts=prompts)


def refuse_mixed(ctx: click.Context) -> None:
    """Refuse benchmark options together with --server, and the reverse."""
    if was_given(ctx, "server"):
        refuse_given(ctx, (*OF_BENCHMARKS, "path"), "--server records without a benchmark")
    else:
        refuse_given(ctx, ("prompts", "prompt_files"), "a prompt needs --server")


def text(file: TextIO) -> str:
    try:
        return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--prompt-file {file.name}: {error}") from error
