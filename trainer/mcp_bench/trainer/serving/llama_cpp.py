"""llama.cpp as a serving engine for GGUF files, in the Python package xllamacpp.

https://github.com/xorbitsai/xllamacpp. Its wheels have llama.cpp's own server. llama-cpp-python is
compiled when it is installed, and its server handles one request at a time.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from mcp_bench.servers.errors import MissingDependencyError, WrongUseError
from mcp_bench.trainer.gguf.read import summary
from mcp_bench.trainer.serving.checkpoint import Checkpoint
from mcp_bench.trainer.serving_defaults import LLAMA_CPP

SUFFIX = ".gguf"
INSTALL = "`pip install 'mcp-bench-trainer[llama-cpp]'`"


def engine_for(checkpoint: Path, wanted: str) -> str:
    """Return the engine's name, with `auto` decided for a GGUF file.

    Raises:
        WrongUseError: the engine and the file do not fit together.
    """
    if checkpoint.suffix == SUFFIX:
        if wanted not in ("auto", LLAMA_CPP):
            raise WrongUseError(
                f"{checkpoint} is a GGUF file, which the engine {LLAMA_CPP} serves, not {wanted}"
            )
        return LLAMA_CPP
    if wanted == LLAMA_CPP:
        raise WrongUseError(
            f"the engine {LLAMA_CPP} serves GGUF files: make one with "
            f"`mcp-bench export-model {checkpoint} --gguf FILE{SUFFIX}`, and serve that"
        )
    return wanted


def check_installed() -> None:
    """Check that the engine is installed.

    Raises:
        MissingDependencyError: it is not.
    """
    if find_spec("xllamacpp") is None:
        raise MissingDependencyError(f"the engine {LLAMA_CPP} needs the Python package xllamacpp: {INSTALL}")


def read_file(file: Path) -> Checkpoint:
    """Check a GGUF file and return its facts.

    Raises:
        WrongUseError: it is missing or damaged, or has no chat template.
    """
    facts = summary(file)
    if not facts.chat_template:
        raise WrongUseError(f"{file} has no chat template (tokenizer.chat_template), so it cannot be served")
    return Checkpoint(file.resolve(), facts.architecture, facts.chat_template, file.stat().st_size)


def command(
    file: Path, host: str, port: int, model: str, max_model_len: int | None, extra: tuple[str, ...]
) -> list[str]:
    """Return the command line, to be run in a folder of the user's own. The key is in the environment.

    Args:
        file: the GGUF file.
        host: address to listen on.
        port: port to listen on.
        model: model name for clients.
        max_model_len: tokens of all conversations at once. Default: what the model was trained for.
        extra: llama.cpp's parameters as NAME=VALUE.

    Raises:
        WrongUseError: an extra argument has another form.
    """
    for argument in extra:
        if "=" not in argument:
            raise WrongUseError(
                f"{argument}: give llama.cpp's parameters as NAME=VALUE, such as n_gpu_layers=99 or "
                "sampling.temp=0.8"
            )
    argv = [sys.executable, "-P", "-m", "mcp_bench.trainer.serving.llama_cpp_server", str(file)]
    return [*argv, host, str(port), model, str(max_model_len or 0), *extra]
