"""The root command. Its subcommands are entry points, imported when they are used.

`mcp-bench --help` must start fast, so command modules import click and the standard library at the top, and
everything heavy inside the command.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click
from click.shell_completion import CompletionItem

from mcp_bench.bridge.cli.help.completion import completing, offer_names
from mcp_bench.bridge.cli.help.short_help import SHORT_HELP
from mcp_bench.bridge.cli.hide_arguments import hide_arguments
from mcp_bench.servers.errors import BenchError, MissingDependencyError, bench_errors, suggestion
from mcp_bench.servers.extras import TRAINER, TRAINER_COMMANDS, install_trainer
from mcp_bench.servers.registry import load, registered
from mcp_bench.servers.terminal.help_sections import write_sections
from mcp_bench.servers.terminal.sanitize import sanitize

SHORT_HELP_LENGTH = 58
"""What fits in one line of 80 columns."""
PRINTERS = ("click", "rich")
"""The packages that commands print with."""
SECTIONS = {
    "Set up": "doctor agents benchmarks tasks config completion",
    "Record": "record regrade proxy",
    "Work interactively": "install connect up status down serve",
    "Look at recordings": "show report view scan verify",
    "Keep recordings": "annotate delete merge push pull import",
    "Write training data": "export leakage",
    "Train": "train loop ablate serve-model export-model",
    "Improve an agent": "improve harness experience best-of",
    "Make benchmarks": "check-benchmark improve-task swe-tasks layers",
}
"""The titles of commands in the help, and the names below each."""
EPILOG = """\b
Examples:
  mcp-bench agents                                    list agents
  mcp-bench record --agent codex --limit 5            run one on five tasks
  mcp-bench report                                    show scores
  mcp-bench export --min-partial 0.5 --out data.jsonl write training data
"""


class Commands(click.Group):
    """A group of the commands in the entry point group `mcp_bench.commands`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(registered("command"))

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in registered("command"):
            return None
        command: click.Command = load("command", name)
        if completing():
            offer_names(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List every command. A command of a broken package is marked and hides no other."""
        known = self.list_commands(ctx)
        width = max(map(len, known))
        left = {name: (name.ljust(width), self._short_help(ctx, name)) for name in known}
        listed = {
            title: [left.pop(name) for name in names.split() if name in left]
            for title, names in SECTIONS.items()
        }
        write_sections(formatter, {**listed, "Other": list(left.values())})

    def _short_help(self, ctx: click.Context, name: str) -> str:
        """Return a command's line of help. Only commands of other packages are imported for it."""
        if (text := SHORT_HELP.get(registered("command")[name].value)) is not None:
            return text
        try:
            command = self.get_command(ctx, name)
        except BenchError as error:
            return f"(broken: {error})"
        return command.get_short_help_str(SHORT_HELP_LENGTH) if command else ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = registered("command")
        if args and not args[0].startswith("-") and args[0] not in known and not ctx.resilient_parsing:
            if args[0] in TRAINER_COMMANDS:
                raise MissingDependencyError(f"{args[0]!r} needs {TRAINER}. Install it: {install_trainer()}")
            ctx.fail(f"no such command {args[0]!r}{suggestion(args[0], {*known, *TRAINER_COMMANDS})}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem[str]]:
        """Complete the names of commands without importing them all."""
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        return [*map(CompletionItem, names), *click.Command.shell_complete(self, ctx, incomplete)]


@click.command(cls=Commands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mcp-bench-kit", prog_name="mcp-bench")
@click.pass_context
def root(ctx: click.Context) -> None:
    """Benchmark any MCP agent with grades it cannot see, and turn recordings into training data."""
    from mcp_bench.bridge.cli.settings.defaults import take_defaults
    from mcp_bench.servers.terminal.sanitized_logs import show_safely

    show_safely()
    if ctx.invoked_subcommand not in (None, "completion", "config"):
        take_defaults(ctx, ctx.invoked_subcommand)


def main() -> None:
    """Run the command line; exit as `run_command` does."""
    hide_arguments()
    run_command()


def run_command(arguments: Sequence[str] | None = None) -> None:
    """Run a command; exit with 0 (done), 1 (something failed), 2 (wrong use) or 3 (fruitless).

    Args:
        arguments: the command with its arguments; None: those of this process.
    """
    try:
        root(arguments, prog_name="mcp-bench")
    except BaseException as error:
        if completing() and not isinstance(error, SystemExit):
            sys.exit(1)  # a traceback would destroy the line that somebody types
        failures = list(bench_errors(error))
        if isinstance(error, OSError) and _lost_output(error):
            failures = [BenchError(f"cannot write the output: {error.strerror}")]
        if not failures:
            raise
        for failure in dict.fromkeys(str(failure) for failure in failures):
            click.echo(sanitize(f"Error: {failure}"), err=True)
        sys.exit(failures[0].exit_code)


def _lost_output(error: OSError) -> bool:
    """Return whether what failed was to write the output, as on a full disk. The rest of it is dropped."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None or at.tb_frame.f_globals["__name__"].partition(".")[0] not in PRINTERS:
        return False
    own = sys.__stdout__
    if own is not None and own is sys.stdout:  # else the interpreter tries to write the rest when it ends
        os.dup2(os.open(os.devnull, os.O_WRONLY), own.fileno())
    return True


if __name__ == "__main__":
    main()
