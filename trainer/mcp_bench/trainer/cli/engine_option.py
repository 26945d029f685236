"""The option that names a serving engine."""

from __future__ import annotations

from typing import Any

import click

ENGINES = ("auto", "vllm", "torch")
HELP = "Serving engine: vLLM, or our own (torch). auto uses vLLM if it is installed and there is a GPU."


class EngineChoice(click.Choice[str]):
    """A choice that knows the engine's former name."""

    def __init__(self) -> None:
        super().__init__(ENGINES)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "transformers":
            self.fail("the engine 'transformers' was replaced: use 'torch'", param, ctx)
        return super().convert(value, param, ctx)


engine_option = click.option("--engine", type=EngineChoice(), default="auto", show_default=True, help=HELP)
