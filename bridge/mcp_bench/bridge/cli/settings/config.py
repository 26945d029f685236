"""`mcp-bench config`: which defaults are in force, and where each comes from."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from mcp_bench.bridge.cli.settings.defaults import Setting

SECRETS = ("token",)
EPILOG = """\b
Examples:
  mcp-bench config                     what files and environment change
  mcp-bench config record              every option of one command
  mcp-bench config train sft --json
\b
A file, mcp-bench.toml in a project or ~/.config/mcp-bench/config.toml for yourself:
  [record]
  agent = "codex"
  jobs = 2
"""


@click.command(epilog=EPILOG)
@click.argument("words", nargs=-1, metavar="[COMMAND]")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def config(ctx: click.Context, words: tuple[str, ...], as_json: bool) -> None:
    """Show the defaults of options, and where they are from.

    The command line comes first, then the environment, then the project's file, then your own file. A
    project's file is mcp-bench.toml, or the table [tool.mcp-bench] of pyproject.toml, in the working folder
    or above it in the same repository. It may choose what is run, such as agent, model and tasks, and cannot
    start programs or weaken isolation. $MCP_BENCH_CONFIG names a file to read instead of both, or none.

    Exits with 1 if a file is not valid.
    """
    from mcp_bench.bridge.cli.settings.defaults import default_map, read_settings
    from mcp_bench.bridge.cli.settings.settings_files import settings_files
    from mcp_bench.servers.terminal.sanitize import sanitize_line

    root = ctx.find_root()
    files = settings_files()
    settings, problems = read_settings(root, files)
    root.default_map = default_map(settings)  # contexts below take their part when they are made
    chosen = _named(root, words)
    if words:
        rows = list(_rows(chosen, settings, every=True))
    else:
        rows = [row for context in _all(root) for row in _rows(context, settings, every=False)]
    if as_json:
        listed = [{"path": str(file.path), "kind": "user" if file.own else "project"} for file in files]
        click.echo(json.dumps({"files": listed, "settings": rows, "problems": problems}, default=str))
    else:
        for line in _lines(files, rows):
            click.echo(sanitize_line(line))
        for problem in problems:
            click.echo(sanitize_line(f"Problem: {problem}"), err=True)
    sys.exit(1 if problems else 0)


def _named(root: click.Context, words: tuple[str, ...]) -> click.Context:
    """Return the context of the command with these names."""
    from mcp_bench.servers.errors import UnknownNameError

    context = root
    for word in words:
        group = context.command
        known = group.list_commands(context) if isinstance(group, click.Group) else []
        if not isinstance(group, click.Group) or word not in known:
            raise UnknownNameError("command", word, known)
        command = group.get_command(context, word)
        assert command is not None  # noqa: S101 - it is listed
        context = click.Context(command, info_name=word, parent=context)
    return context


def _all(context: click.Context) -> Iterator[click.Context]:
    """Yield the context of every command that can be loaded."""
    from mcp_bench.servers.errors import BenchError

    command = context.command
    if not isinstance(command, click.Group):
        yield context
        return
    for name in command.list_commands(context):
        try:
            child = command.get_command(context, name)
        except BenchError:
            continue
        if child is not None:
            yield from _all(click.Context(child, info_name=name, parent=context))


def _rows(context: click.Context, settings: list[Setting], *, every: bool) -> Iterator[dict[str, Any]]:
    """Yield a command's options with their values, as click resolves them without a command line."""
    from click.core import ParameterSource

    command, above = context.command, context.parent
    name = context.command_path.partition(" ")[2]
    parsed = command.make_context(context.info_name, [], parent=above, resilient_parsing=True)
    files = {setting.parameter: setting for setting in settings if " ".join(setting.command) == name}
    for option in command.params:
        if not isinstance(option, click.Option) or option.hidden or option.is_eager:
            continue
        source = parsed.get_parameter_source(str(option.name))
        value: Any = parsed.params.get(str(option.name))
        setting = files.get(str(option.name))
        if source is ParameterSource.ENVIRONMENT:
            variable = option.envvar if isinstance(option.envvar, str) else ", ".join(option.envvar or ())
            kind, origin = "environment", f"${variable}"
        elif source is ParameterSource.DEFAULT_MAP and setting is not None:
            kind, origin = "file", str(setting.file.path)
            value = setting.value
        elif every:
            kind, origin = "default", ""
        else:
            continue
        long = option.opts[-1].removeprefix("--")
        shown = "***" if long in SECRETS and value is not None else value
        yield {"command": name, "option": long, "value": shown, "source": kind, "origin": origin}


def _lines(files: list[Any], rows: list[dict[str, Any]]) -> Iterator[str]:
    from mcp_bench.bridge.cli.settings.settings_files import PROJECT_NAME, user_path

    if files:
        yield "Files, the strongest last:"
        yield from (f"  {file.path} ({file.kind})" for file in files)
    else:
        yield f"No file sets defaults. Yours would be {user_path()}, a project's {PROJECT_NAME}."
    width = max((len(row["option"]) for row in rows), default=0)
    cells = [_cell(row["value"]) for row in rows]
    wide = max(map(len, cells), default=0)
    command = None
    for row, cell in zip(rows, cells, strict=True):
        if row["command"] != command:
            command = row["command"]
            yield f"{command}:"
        yield f"  {row['option']:<{width}}  {cell:<{wide}}  {row['origin'] or 'built in'}".rstrip()


def _cell(value: Any) -> str:
    if value in (None, (), [], {}):
        return "-"
    return value if isinstance(value, str) else json.dumps(value, default=str)
