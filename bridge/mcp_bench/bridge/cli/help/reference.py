"""Write what is made from the commands: `make docs` does it.

`python -m mcp_bench.bridge.cli.help.reference` prints the command reference, `docs/reference/cli.md`. With
`--short-help` it prints `short_help.py`, so that `mcp-bench --help` imports no commands.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from mcp_bench.bridge.cli.root import SHORT_HELP_LENGTH, root
from mcp_bench.servers.registry import load, registered

HEADER = """# Command reference

Every command with its options, as `mcp-bench COMMAND --help` prints them. `make docs` writes this page from
the commands; a test compares the two.
"""


def commands(command: click.Command, parent: click.Context | None, name: str) -> Iterator[tuple[str, str]]:
    """Yield each command's full name and help text, the given one first."""
    settings = {**command.context_settings, "max_content_width": 90, "terminal_width": 90}
    context = click.Context(command, info_name=name, parent=parent, **settings)
    yield context.command_path, command.get_help(context)
    if isinstance(command, click.Group):
        for child in command.list_commands(context):
            found = command.get_command(context, child)
            if found is not None:
                yield from commands(found, context, child)


def reference() -> str:
    """Return the whole page as Markdown."""
    sections = [f"## {path}\n\n```text\n{text}\n```\n" for path, text in commands(root, None, "mcp-bench")]
    return "\n".join([HEADER, *sections])


SHORT_HELP = '''"""The line of help of each command. `make docs` writes this file; a test compares."""

SHORT_HELP: dict[str, str] = {
%s}
"""By entry point. Other packages' commands are imported for theirs."""
'''


def short_help() -> str:
    """Return the source of `short_help.py`."""
    points = registered("command").values()
    lines = sorted(
        (point.value, load("command", point.name).get_short_help_str(SHORT_HELP_LENGTH)) for point in points
    )
    return SHORT_HELP % "".join(f'    "{value}": "{text}",\n' for value, text in lines)


if __name__ == "__main__":
    click.echo(short_help() if "--short-help" in sys.argv else reference(), nl=False)
