"""Rank and number of the training processes, as torchrun and accelerate set them, and their common end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

FAILED = "mcp-bench-failed"
"""Key of the processes' common store: one of them has failed."""
LOOK = 1.0
"""Seconds between two looks at it."""
GRACE = 10.0
"""Seconds in which a process may end by itself, with an error of its own."""


def rank() -> int:
    """Return the rank of this process. Rank 0 writes files and output."""
    return int(os.environ.get("RANK", "0"))


def count() -> int:
    """Return the number of training processes."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def any_process(value: bool) -> bool:
    """Return whether `value` is true in any process. All processes must call this at the same point."""
    import torch
    from torch import distributed

    if not distributed.is_initialized():
        return value
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    flag = torch.tensor(int(value), device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item())


def fail() -> None:
    """Announce that this process ends before the others: they would wait for it in their next step."""
    store = _store()
    if store is not None:
        with suppress(RuntimeError):  # its server has ended
            store.set(FAILED, str(rank()))


@contextmanager
def ending_with_others() -> Iterator[None]:
    """End this process soon after another one has failed.

    It may wait for that process in a step. No signal is noticed there, and NCCL waits for half an hour.
    """
    store, ended = _store(), threading.Event()
    if store is not None:
        watching = threading.Thread(target=_watch, args=(store.clone(), ended), daemon=True)
        watching.start()
    try:
        yield
    finally:
        ended.set()


def _watch(store: Any, ended: threading.Event) -> None:
    while not ended.wait(LOOK):
        try:
            failed = store.check([FAILED])
        except RuntimeError:
            return
        if failed:
            if not ended.wait(GRACE):
                click.echo("Another process has failed: this one ends, too", err=True)
                os._exit(1)
            return


def _store() -> Any:
    """Return the store of the process group; None without a group."""
    from torch import distributed

    if not distributed.is_initialized():
        return None
    return distributed.distributed_c10d._get_default_store()
