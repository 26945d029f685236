"""Train with tcmalloc where it is installed: glibc's allocator is slow at what training on a CPU asks of it.

Tensors of some megabytes come and go by the thousand, in sizes that differ from row to row. With glibc,
memory and the time of a step grew over a run. With tcmalloc (https://github.com/gperftools/gperftools),
SmolLM2-135M trained 1.4 times as fast, in 0.7 of the memory; docs/project/models.md has the figures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from ctypes.util import find_library
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcp_bench.trainer.recipe import Recipe

COMMAND = "train"
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


def prefer_tcmalloc() -> None:
    """Start `mcp-bench train ...` again with tcmalloc, if that is installed.

    Call this once, before the command does anything. An `LD_PRELOAD` in the environment takes precedence,
    also an empty one. With a GPU, nothing happens, nor in a process that is no such command, such as a
    program that uses this package.
    """
    if os.environ.pop(OURS, None) is not None:
        os.environ.pop(PRELOAD, None)  # it is loaded; what this process starts shall not have it
        return
    if sys.platform != "linux" or not is_command(sys.argv, sys.orig_argv):
        return
    from mcp_bench.trainer.serving.engines import has_accelerator

    if not has_accelerator() and (environ := preloading(os.environ)) is not None:
        sys.stdout.flush()
        sys.stderr.flush()
        os.execve(sys.executable, sys.orig_argv, environ)  # noqa: S606 - the same command line again


def is_command(argv: Sequence[str], started: Sequence[str]) -> bool:
    """Return whether this process was started as `mcp-bench train ...`.

    Args:
        argv: the arguments, as the program sees them.
        started: all words that Python was started with. A fork has those of its parent.
    """
    arguments = argv[1:]
    return arguments[:1] == [COMMAND] and list(started[-len(arguments) :]) == list(arguments)


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
