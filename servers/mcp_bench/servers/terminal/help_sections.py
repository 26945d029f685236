"""Help that lists many commands or options in sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click


class SectionedCommand(click.Command):
    """A command whose help lists its options under titles.

    Args:
        sections: names of options, without dashes and divided by spaces, by the title of their section. The
            other options come last.
        settings: those of `click.Command`.
    """

    def __init__(self, *arguments: Any, sections: Mapping[str, str], **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.sections = {title: names.split() for title, names in sections.items()}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        options = [param for param in self.get_params(ctx) if isinstance(param, click.Option)]
        left = {option.opts[-1].removeprefix("--"): option for option in options}
        chosen = {title: [left.pop(name) for name in names] for title, names in self.sections.items()}
        write_sections(
            formatter,
            {
                title: [record for option in listed if (record := option.get_help_record(ctx)) is not None]
                for title, listed in {**chosen, "Other": list(left.values())}.items()
            },
        )


def write_sections(formatter: click.HelpFormatter, sections: Mapping[str, Sequence[tuple[str, str]]]) -> None:
    """Write names with their help, by title. A section without any is left out."""
    for title, rows in sections.items():
        if rows:
            with formatter.section(title):
                formatter.write_dl(rows)
