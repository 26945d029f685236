"""`mcp-bench completion`: complete commands, options and names in a shell.

click makes the scripts and completes commands, options, choices and files. What is added here are the names
that are cheap to list: no plugin and no benchmark is imported, and databases are read for episodes only.

Shells do not quote what a script offers. Only plain names are offered, whatever a recording is called.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import closing, suppress

import click
from click.shell_completion import CompletionItem, get_completion_class

from mcp_bench.servers.registry import Kind, registered

VARIABLE = "_MCP_BENCH_COMPLETE"
"""Set by the scripts when they ask for completions."""
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
RUN = re.compile(r"run_[0-9a-z]{1,40}")
MOST_RUNS = 100
SEARCHED_RUNS = 20
"""Episodes are looked for in this many of the newest runs."""

HINTS = {
    "bash": 'Put this line into ~/.bashrc: eval "$(mcp-bench completion bash)"',
    "zsh": 'Put this line into ~/.zshrc, below compinit: eval "$(mcp-bench completion zsh)"',
    "fish": "Write it to a file: mcp-bench completion fish > ~/.config/fish/completions/mcp-bench.fish",
}
EPILOG = """\b
Examples:
  eval "$(mcp-bench completion bash)"        in ~/.bashrc
  eval "$(mcp-bench completion zsh)"         in ~/.zshrc, below compinit
  mcp-bench completion fish > ~/.config/fish/completions/mcp-bench.fish
"""


@click.command(epilog=EPILOG)
@click.argument("shell", type=click.Choice(list(HINTS)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes mcp-bench in a shell.

    It completes commands, options, agents, benchmarks, splits, formats, recipes, runs and episodes.
    """
    made = get_completion_class(shell)
    assert made is not None  # noqa: S101 - one of click's own
    click.echo(made(ctx.find_root().command, {}, "mcp-bench", VARIABLE).source())
    if sys.stdout.isatty():
        click.echo(HINTS[shell], err=True)


def completing() -> bool:
    """Return whether a shell has started this process to complete a line."""
    return VARIABLE in os.environ


def offer_names(command: click.Command) -> None:
    """Let the options and arguments of a command, and of its subcommands, complete names."""
    if isinstance(command, click.Group):
        for child in command.commands.values():
            offer_names(child)
    for param in command.params:
        names = NAMES.get(f"{command.name}.{param.name}") or NAMES.get(str(param.name))
        if names is not None:
            param.type = Named(names, files=param.name == "recipe")


class Named(click.ParamType[str]):
    """A value that is one of some names, for completion alone."""

    name = "text"

    def __init__(self, names: Callable[[str], Iterable[str]], *, files: bool) -> None:
        self.names = names
        self.files = files

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem[str]]:
        names = self.names(incomplete)
        found = [name for name in names if name.startswith(incomplete) and NAME.fullmatch(name)]
        # the scripts forget what came before a file
        first = [CompletionItem(incomplete, type="file")] if self.files else []
        return [*first, *map(CompletionItem, found)]


def _registered(kind: Kind) -> Callable[[str], Iterable[str]]:
    return lambda incomplete: registered(kind)


def _installed_for(incomplete: str) -> Iterable[str]:
    from mcp_bench.plugins.install.places import SETTINGS

    return SETTINGS


def _splits(incomplete: str) -> Iterable[str]:
    return ("train", "dev", "test", "all")


def _runs(incomplete: str) -> list[str]:
    """Return the newest runs, the newest first: their names begin with the time."""
    from mcp_bench.recorder.paths import runs_dir

    with suppress(OSError):
        names = (path.name for path in runs_dir().iterdir())
        found = [name for name in names if RUN.fullmatch(name) and name.startswith(incomplete)]
        return sorted(found, reverse=True)[:MOST_RUNS]
    return []


def _runs_and_episodes(incomplete: str) -> list[str]:
    if not incomplete.startswith("ep"):
        return _runs(incomplete)
    import sqlite3
    from urllib.parse import quote

    from mcp_bench.recorder.paths import runs_dir

    found: list[str] = []
    for run in _runs("")[:SEARCHED_RUNS]:
        file = f"file:{quote(str(runs_dir() / run / 'recordings.db'))}?mode=ro"
        with suppress(sqlite3.Error), closing(sqlite3.connect(file, uri=True, timeout=0.1)) as database:
            newest = "SELECT id FROM episodes WHERE id >= ? AND id < ? ORDER BY id DESC LIMIT 100"
            found += [str(one) for (one,) in database.execute(newest, [incomplete, f"{incomplete}~"])]
    return found


def _recipes(incomplete: str) -> list[str]:
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("mcp_bench.trainer")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return sorted(file.stem for folder in folders for file in Path(folder, "recipes").glob("*.yaml"))


NAMES: dict[str, Callable[[str], Iterable[str]]] = {
    "agent": _registered("agent"),
    "agents": _registered("agent"),
    "teacher": _registered("agent"),
    "benchmark": _registered("benchmark"),
    "benchmarks": _registered("benchmark"),
    "config.words": _registered("command"),
    "export.form": _registered("format"),
    "import.form": _registered("importer"),
    "install.agent": _installed_for,
    "leakage.form": _registered("importer"),
    "recipe": _recipes,
    "record.resume": _runs,
    "runs": _runs,
    "split": _splits,
    "splits": _splits,
    "what": _runs_and_episodes,
}
"""By a parameter's name, or by a command's and its, where that means something else."""
