"""Help that lists the options of a large command in sections."""

from __future__ import annotations

from collections.abc import Mapping
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
        for title, params in {**chosen, "Other": list(left.values())}.items():
            records = [record for param in params if (record := param.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)
