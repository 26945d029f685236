"""Train with tcmalloc where it is installed: glibc's allocator is slow at what training on a CPU asks of it.

Tensors of some megabytes come and go by the thousand, in sizes that differ from row to row. glibc's heap
fragments: memory and time grow with every step. With tcmalloc (https://github.com/gperftools/gperftools),
SmolLM2-135M trained 1.4 times as fast, in two thirds of the memory; docs/performance.md has the figures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from ctypes.util import find_library

from mcp_bench.trainer.recipe import Recipe
from mcp_bench.trainer.serving.engines import has_accelerator

PRELOAD = "LD_PRELOAD"
OURS = "MCP_BENCH_PRELOADED"
"""Says that `LD_PRELOAD` was set here, and is not the user's."""
LIBRARIES = ("tcmalloc_minimal", "tcmalloc")
LARGE = 10_000_000
"""Parameters from which it is worth an advice."""
ADVICE = (
    "Training on a CPU is faster, and takes less memory, with tcmalloc. Install the package "
    "libtcmalloc-minimal4 (Debian, Ubuntu) or gperftools-libs (Fedora) to have it used."
)


def prefer_tcmalloc(command: str) -> None:
    """Start this process again with tcmalloc, if that is installed. Call this before anything is done.

    An `LD_PRELOAD` in the environment takes precedence, also an empty one. With a GPU, nothing happens.

    Args:
        command: the first argument of the command line that may be started again. A process that is something
            else, such as a program that uses this package, stays as it is.
    """
    if os.environ.pop(OURS, None) is not None:
        os.environ.pop(PRELOAD, None)  # it is loaded; what this process starts shall not have it
        return
    if sys.platform != "linux" or has_accelerator() or not started_as(command, sys.argv, sys.orig_argv):
        return
    if (environ := preloading(os.environ)) is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, sys.orig_argv, environ)  # noqa: S606 - the same command line again


def started_as(command: str, argv: Sequence[str], started: Sequence[str]) -> bool:
    """Return whether the command line of this process is a command of mcp-bench.

    Args:
        command: its first argument.
        argv: the arguments, as the program sees them.
        started: all words that Python was started with. A fork has those of its parent.
    """
    arguments = argv[1:]
    return arguments[:1] == [command] and list(started[-len(arguments) :]) == list(arguments)


def advice(recipe: Recipe) -> str | None:
    """Return what to say to a user who trains a large model on a CPU without tcmalloc."""
    large = sum(recipe.architecture.parameters().values()) >= LARGE
    missing = sys.platform == "linux" and PRELOAD not in os.environ and library() is None
    return ADVICE if recipe.hardware.device == "cpu" and large and missing else None


def library() -> str | None:
    """Return the name of tcmalloc's library, by which the loader finds it."""
    return next(filter(None, map(find_library, LIBRARIES)), None)


def preloading(environ: Mapping[str, str]) -> dict[str, str] | None:
    """Return the environment with tcmalloc; None if it is not installed, or the user has chosen."""
    if PRELOAD in environ:
        return None
    found = library()
    return None if found is None else {**environ, PRELOAD: found, OURS: "1"}
