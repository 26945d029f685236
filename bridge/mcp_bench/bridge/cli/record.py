"""`mcp-bench record`: run an agent on tasks, record every call, and grade the final state."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from mcp_bench.bridge.cli.options import (
    durability_option,
    finite,
    http_url,
    key_values,
    limit_option,
    limits,
    parallel_options,
    refuse_given,
    role_options,
    seed_option,
    split_option,
    task_option,
    was_given,
)
from mcp_bench.bridge.engines.parallel import AUTO, PARALLEL, Parallel, Processes
from mcp_bench.bridge.sandbox.names import ENGINES
from mcp_bench.recorder.isolation_levels import IN_PROCESS, LEVELS, LIST, SEALING
from mcp_bench.servers.help_sections import SectionedCommand

if TYPE_CHECKING:
    from mcp_bench.bridge.run.choices import Choices

DEFAULT_BENCHMARK = "saasworld"
DEFAULT_TIMEOUT = 900.0
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
@click.option("--agent", metavar="A", help="Agent to run: see `mcp-bench agents`.")
@click.option(
    "--benchmark",
    metavar="B",
    default=DEFAULT_BENCHMARK,
    show_default=True,
    help="Benchmark to run it on: see `mcp-bench benchmarks`.",
)
@click.option(
    "--path",
    metavar="DIR",
    help="The folder of the tasks, for a benchmark like harbor: short for --benchmark NAME:DIR.",
)
@split_option
@task_option
@click.option(
    "--tag",
    "tags",
    metavar="TAG",
    multiple=True,
    help="Take only tasks with this tag (repeatable; all must match).",
)
@limit_option
@click.option(
    "--server",
    metavar="CMD|URL",
    help="Record any MCP server instead of a benchmark, without grades. A command inherits the environment "
    "and working directory and runs outside the agent's sandbox. It is stored with the run.",
)
@click.option(
    "--prompt",
    "prompts",
    metavar="TEXT",
    multiple=True,
    help="With --server: a task for the agent (repeatable).",
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
    "--repeat",
    type=click.IntRange(min=1),
    metavar="K",
    default=1,
    show_default=True,
    help="Number of episodes for each task.",
)
@seed_option
@parallel_options
@click.option("--model", metavar="M", help="Model for the agent.")
@click.option(
    "--base-url",
    metavar="URL",
    callback=http_url,
    help="Model endpoint to use instead of the agent's default. With --resume: the run's own endpoint, if "
    "its URL has a login, which is not stored.",
)
@role_options
@click.option(
    "--capture-llm",
    is_flag=True,
    help="Also record the agent's requests to its model and the responses, by a proxy.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=DEFAULT_TIMEOUT,
    callback=finite,
    show_default=True,
    help="Time limit for an attempt, unless the task sets its own.",
)
@click.option(
    "--max-calls",
    type=click.IntRange(min=1),
    metavar="N",
    help="Maximum number of tool calls in an attempt; a lower limit of the task applies.",
)
@click.option(
    "--max-cost",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    callback=finite,
    help="Cost limit for the run, for agents that report cost: once reached, no new episode starts. With "
    "--resume: the new limit.",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    default=2,
    envvar="MCP_BENCH_RETRIES",
    show_default=True,
    show_envvar=True,
    help="Maximum number of retries of an episode after the endpoint, a server or the launch failed. The "
    "agent's own failures are never retried.",
)
@click.option(
    "--retry-wait",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=5.0,
    callback=finite,
    show_default=True,
    help="Wait before the first retry; doubles each time.",
)
@click.option(
    "--tools",
    type=click.Choice(["mcp-only", "all"]),
    default="mcp-only",
    show_default=True,
    help="The agent's tools: the MCP server only, or also its built-in tools such as a shell. With harbor "
    "and codeworld, all starts the agent inside the task's sandbox.",
)
@click.option(
    "--home",
    type=click.Choice(["sealed", "native"]),
    default="sealed",
    show_default=True,
    help="sealed: a private home with your login and nothing else. native: your own home with your settings, "
    "skills, memory, other MCP servers and whole environment.",
)
@click.option(
    "--isolation",
    type=click.Choice(["auto", *LEVELS, IN_PROCESS]),
    default="auto",
    metavar="LEVEL",
    envvar="MCP_BENCH_ISOLATION",
    show_default=True,
    show_envvar=True,
    help=f"How the agent is isolated from grades, recordings and other episodes: {LIST}. `auto` is "
    "the strongest level that works here. `in-process` makes chat or one-action a part of this process: that "
    "takes less time, and isolates nothing.",
)
@click.option(
    "--sandbox",
    type=click.Choice([AUTO, *ENGINES]),
    default=AUTO,
    metavar="ENGINE",
    envvar="MCP_BENCH_SANDBOX",
    show_default=True,
    show_envvar=True,
    help=f"Engine of the sandboxes that tasks ask for: {', '.join(ENGINES)}. `auto` is the first that works "
    "here.",
)
@click.option(
    "--require-isolation",
    type=click.Choice(SEALING),
    metavar="LEVEL",
    help="Refuse to record if the isolation is weaker than this level.",
)
@click.option(
    "--agent-option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=key_values,
    help="Agent-specific option, see `mcp-bench agents` (repeatable).",
)
@click.option(
    "--harness",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="A folder of instructions, tips, skills, tool descriptions and agent options for the agent. Its "
    "content is stored with the run, and `report` compares versions by a hash of it.",
)
@click.option(
    "--agent-limit",
    "agent_limits",
    metavar="KEY=N",
    multiple=True,
    callback=limits,
    help="What one agent may use: processes (2048, threads included), memory and storage (8192 MiB each), "
    "files (1000000). An agent that uses more is ended and graded (repeatable).",
)
@click.option(
    "--agent-command",
    metavar="CMD",
    help="Command that starts an agent with the Agent Client Protocol; short for --agent-option command=CMD.",
)
@durability_option
@click.option(
    "--run-tag",
    "run_tags",
    metavar="TAG",
    multiple=True,
    help="Tag the run, for `report --run-tag` (repeatable).",
)
@click.option(
    "--note", metavar="TEXT", help="A note on the run, in your own words: see `mcp-bench annotate`."
)
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
    from mcp_bench.bridge.cli.defaults import project_line
    from mcp_bench.bridge.cli.record_matrix import record_file, show_run
    from mcp_bench.bridge.run.run import run_and_report
    from mcp_bench.bridge.run.setup import resume_run, start_run
    from mcp_bench.servers.hardening import harden
    from mcp_bench.servers.sanitize import sanitize_line

    harden()

    if resume is None and (line := project_line(ctx)):
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
        setup, run = start_run(chosen, elsewhere=parallel.ray)
    else:
        own = {*choices, "dry_run"} - set(AGAIN)
        refuse_given(ctx, own, "--resume keeps the run's own settings")
        for name in AGAIN:
            if not was_given(ctx, name):
                choices[name] = () if name == "run_tags" else None  # a file's defaults are for new runs
        setup, run = resume_run(resume, **{name: choices[name] for name in AGAIN})
    with run:
        code = run_and_report(setup, run, parallel, choices["max_cost"], as_json)
    sys.exit(code)


def choices_of(ctx: click.Context, values: dict[str, Any]) -> Choices:
    """Return what to record, from the values of this command's options."""
    from mcp_bench.bridge.cli.defaults import forget_another_agent
    from mcp_bench.bridge.run.choices import OF_BENCHMARKS, Choices, default

    forget_another_agent(ctx, values)
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
    from mcp_bench.bridge.run.choices import OF_BENCHMARKS

    if was_given(ctx, "server"):
        refuse_given(ctx, (*OF_BENCHMARKS, "path"), "--server records without a benchmark")
    else:
        refuse_given(ctx, ("prompts", "prompt_files"), "a prompt needs --server")


def text(file: TextIO) -> str:
    try:
        return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--prompt-file {file.name}: {error}") from error
