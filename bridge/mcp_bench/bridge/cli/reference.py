"""Write the command reference, `docs/cli.md`: `python -m mcp_bench.bridge.cli.reference > docs/cli.md`."""

from __future__ import annotations

from collections.abc import Iterator

import click

from mcp_bench.bridge.cli.root import root

HEADER = """# Command reference

This page is written by `python -m mcp_bench.bridge.cli.reference`; a test compares the two.
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


if __name__ == "__main__":
    click.echo(reference(), nl=False)
