"""The option that names a serving engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

ENGINES = ("auto", "vllm", "torch")
HELP = (
    "Serving engine: vLLM, or our own (torch). auto uses vLLM if MCP_BENCH_VLLM names it, or if it is "
    "installed and there is a GPU."
)
GGUF = "llama.cpp"


class EngineChoice(click.Choice[str]):
    """A choice that knows the engine's former name."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if value == "transformers":
            self.fail("the engine 'transformers' was replaced: use 'torch'", param, ctx)
        return super().convert(value, param, ctx)


def engine_option(*, gguf: bool = False) -> Callable[[Any], Any]:
    """Return the option; with `gguf` also for llama.cpp, which serves GGUF files only."""
    names, text = (ENGINES, HELP) if not gguf else ((*ENGINES, GGUF), f"{HELP} {GGUF} serves GGUF files.")
    return click.option("--engine", type=EngineChoice(names), default="auto", show_default=True, help=text)
