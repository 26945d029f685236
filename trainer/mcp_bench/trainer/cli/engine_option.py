"""The option that names a serving engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from mcp_bench.trainer.serving_defaults import ENGINE_HELP, LLAMA_CPP, OWN_OR_VLLM


def engine_option(*, gguf: bool = False) -> Callable[[Any], Any]:
    """Return the option; with `gguf` also for llama.cpp, which serves GGUF files only."""
    names = (*OWN_OR_VLLM, LLAMA_CPP) if gguf else OWN_OR_VLLM
    text = f"{ENGINE_HELP} {LLAMA_CPP} serves GGUF files." if gguf else ENGINE_HELP
    return click.option("--engine", type=click.Choice(names), default="auto", show_default=True, help=text)
