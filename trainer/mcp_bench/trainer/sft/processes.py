"""Rank and number of the training processes, as torchrun and accelerate set them."""

from __future__ import annotations

import os


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
