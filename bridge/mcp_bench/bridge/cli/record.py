"""`mcp-bench record`: let an agent work on tasks, record every call, grade what it left."""

from __future__ import annotations

import math
import sys
from collections.abc import Collection
from typing import Any, TextIO
from urllib.parse import urlsplit

import click

from mcp_bench.recorder.isolation_levels import LEVELS, LIST, SEALING

DEFAULT_BENCHMARK = "saasworld"
DEFAULT_TIMEOUT = 900.0

EPILOG = """\b
Examples:
  mcp-bench record --agent codex --limit 5
  mcp-bench record --agent claude-code --split test --jobs 4 --max-cost 20
  mcp-bench record --agent chat --model my-model --base-url http://127.0.0.1:8000/v1
  mcp-bench record --agent codex --limit 1 --capture-llm
  mcp-bench record --agent claude-code --limit 5 --tools all --require-isolation landlock
  mcp-bench record --agent acp --agent-command "gemini --acp" --model gemini-3-pro
  mcp-bench record --agent oracle --limit 20 --agent-option drop=0.3
  mcp-bench record --server "npx -y @modelcontextprotocol/server-everything" \\
      --agent codex --prompt "Echo hello, then add 2 and 3."
  mcp-bench record --resume run_1m7yq0k21j2zyrv
  mcp-bench record --resume run_1m7yq0k21j2zyrv --max-cost 30
"""


def key_values(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, str]:
    """Parse repeated KEY=VALUE options."""
    pairs = [value.partition("=") for value in values]
    for key, sign, _ in pairs:
        if not key or not sign:
            raise click.BadParameter(f"{key!r} is not of the form KEY=VALUE")
    return {key: value for key, _, value in pairs}


def finite(ctx: click.Context, param: click.Parameter, value: float | None) -> float | None:
    """Refuse `nan`, which passes every range, and `inf`, which JSON cannot hold."""
    if value is not None and not math.isfinite(value):
        raise click.BadParameter(f"{value} is not a finite number")
    return value


def http_url(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Refuse what no client could open, before an agent retries it for long."""
    try:
        parts = urlsplit(value or "http://none")
        usable = parts.scheme in ("http", "https") and parts.hostname
    except ValueError:  # such as brackets that do not match
        usable = False
    if not usable:
        raise click.BadParameter(f"{value!r} is not an http:// or https:// URL")
    return value


@click.command(epilog=EPILOG)
@click.option("--agent", metavar="A", help="The agent: see `mcp-bench agents`.")
@click.option(
    "--benchmark",
    metavar="B",
    default=DEFAULT_BENCHMARK,
    show_default=True,
    help="What it works on: see `mcp-bench benchmarks`.",
)
@click.option(
    "--split", metavar="S", help="train, dev, test, or all; the benchmark's default set if not given."
)
@click.option("--task", "tasks", metavar="ID", multiple=True, help="One task by its id; may be repeated.")
@click.option(
    "--tag", "tags", metavar="TAG", multiple=True, help="Only tasks with this tag (repeatable: with all)."
)
@click.option(
    "--limit", type=click.IntRange(min=1), metavar="N", help="At most N tasks; all of the split if not given."
)
@click.option(
    "--server",
    metavar="CMD|URL",
    help="Any MCP server instead of a benchmark: recorded, not graded. A command gets this process's "
    "environment and folder, outside the agent's reach; it is stored with the run.",
)
@click.option(
    "--prompt", "prompts", metavar="TEXT", multiple=True, help="With --server: what to do; may be repeated."
)
@click.option(
    "--prompt-file",
    "prompt_files",
    type=click.File(encoding="utf-8"),
    metavar="F",
    multiple=True,
    help="The same, out of a file; - is stdin.",
)
@click.option(
    "--repeat",
    type=click.IntRange(min=1),
    metavar="K",
    default=1,
    show_default=True,
    help="Attempts at each task.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="What the harness may vary in a world.")
@click.option(
    "--jobs", type=click.IntRange(min=1), metavar="J", default=1, show_default=True, help="Episodes at once."
)
@click.option("--model", metavar="M", help="The model the agent is to use.")
@click.option(
    "--base-url", metavar="URL", callback=http_url, help="A model endpoint instead of the agent's own."
)
@click.option(
    "--capture-llm",
    is_flag=True,
    help="Record what the agent asks its model and what comes back, too, by a proxy at the model endpoint.",
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    default=DEFAULT_TIMEOUT,
    callback=finite,
    show_default=True,
    help="Seconds for one attempt, where the task sets none.",
)
@click.option(
    "--max-calls",
    type=click.IntRange(min=1),
    metavar="N",
    help="Tool calls in one attempt at most, where the task does not set less.",
)
@click.option(
    "--max-cost",
    type=click.FloatRange(min=0, min_open=True),
    metavar="USD",
    callback=finite,
    help="Start no more episodes once the agent has told of so much cost. With --resume: the new limit.",
)
@click.option(
    "--retries",
    type=click.IntRange(min=0),
    metavar="N",
    default=2,
    envvar="MCP_BENCH_RETRIES",
    show_default=True,
    show_envvar=True,
    help="Attempts again where the endpoint, a server or the launch failed; never for what the agent did.",
)
@click.option(
    "--retry-wait",
    type=click.FloatRange(min=0),
    metavar="SECONDS",
    default=5.0,
    callback=finite,
    show_default=True,
    help="Before the first of these; doubled each time.",
)
@click.option(
    "--tools",
    type=click.Choice(["mcp-only", "all"]),
    default="mcp-only",
    show_default=True,
    help="Whether the agent keeps its built-in tools, shell included.",
)
@click.option(
    "--home",
    type=click.Choice(["sealed", "native"]),
    default="sealed",
    show_default=True,
    help="A private HOME with your login and nothing else of yours, or your own: settings, skills, memory, "
    "other MCP servers, the whole environment.",
)
@click.option(
    "--isolation",
    type=click.Choice(["auto", *LEVELS]),
    default="auto",
    metavar="LEVEL",
    envvar="MCP_BENCH_ISOLATION",
    show_default=True,
    show_envvar=True,
    help=f"How the agent is isolated from grades, recordings and other episodes: {LIST}. `auto` is "
    "the strongest level that works here.",
)
@click.option(
    "--require-isolation",
    type=click.Choice(SEALING),
    metavar="LEVEL",
    help="Record nothing if the agent would be kept apart by less than this.",
)
@click.option(
    "--agent-option",
    "options",
    metavar="KEY=VALUE",
    multiple=True,
    callback=key_values,
    help="An option of the agent's own, as `mcp-bench agents` lists them; may be repeated.",
)
@click.option(
    "--agent-command",
    metavar="CMD",
    help="Starts an agent that speaks the Agent Client Protocol: short for --agent-option command=CMD.",
)
@click.option(
    "--durability",
    type=click.Choice(["normal", "full"]),
    default="normal",
    show_default=True,
    help="What is stored outlives a killed process, or a power cut, too (slower).",
)
@click.option("--resume", metavar="RUN", help="Go on with a run that was stopped; its own settings hold.")
@click.option("--json", "as_json", is_flag=True, help="Print a summary as one JSON document on stdout.")
@click.pass_context
def record(
    ctx: click.Context,
    /,
    resume: str | None,
    jobs: int,
    as_json: bool,
    agent_command: str | None,
    **choices: Any,
) -> None:
    """Let an agent work on tasks. Calls are recorded, and the final state is graded out of its sight.

    Ends with 0 when every episode was graded, with 1 when some were invalid or the run was stopped.
    """
    from mcp_bench.bridge.run.run import run_and_report
    from mcp_bench.bridge.run.setup import Choices, resume_run, start_run
    from mcp_bench.servers.hardening import harden

    harden()

    if resume is None:
        if not choices["agent"]:
            raise click.UsageError("say which agent with --agent (see `mcp-bench agents`)")
        refuse_mixed(ctx, choices)
        if agent_command is not None:
            choices["options"]["command"] = agent_command
        files = choices.pop("prompt_files")
        prompts = [*choices.pop("prompts"), *(text(file) for file in files)]
        setup, run = start_run(Choices(**choices, prompts=prompts))
    else:
        named = {*choices, "agent_command"} - {"max_cost"}
        given = [param.opts[0] for param in ctx.command.params if was_given(ctx, param.name, named)]
        if given:
            raise click.UsageError(f"--resume goes on with the run's own settings: leave out {given[0]}")
        setup, run = resume_run(resume, choices["max_cost"])
    with run:
        code = run_and_report(setup, run, jobs, choices["max_cost"], as_json)
    sys.exit(code)


def refuse_mixed(ctx: click.Context, choices: Collection[str]) -> None:
    """Refuse options of a benchmark beside those of a server."""
    with_server = was_given(ctx, "server", choices)
    clashing = (
        {
            "benchmark": "--benchmark",
            "split": "--split",
            "tasks": "--task",
            "tags": "--tag",
            "limit": "--limit",
            "max_calls": "--max-calls",
        }
        if with_server
        else {"prompts": "--prompt", "prompt_files": "--prompt-file"}
    )
    for name, option in clashing.items():
        if was_given(ctx, name, choices):
            told = "does not go with --server" if with_server else "needs --server"
            raise click.UsageError(f"{option} {told}")


def text(file: TextIO) -> str:
    try:
        return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise click.UsageError(f"--prompt-file {file.name}: {error}") from error


def was_given(ctx: click.Context, name: str | None, among: Collection[str]) -> bool:
    if name is None or name not in among:
        return False
    return ctx.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
