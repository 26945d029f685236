"""The type of `--referees`, apart from what the API imports, which has no command line."""

from __future__ import annotations

from typing import Any

import click

from mcp_bench.bridge.engines.parallel import AUTO


class CountOrAuto(click.IntRange):
    """A number from 1, or `auto`."""

    name = "count or auto"

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return AUTO if value == AUTO else super().convert(value, param, ctx)
