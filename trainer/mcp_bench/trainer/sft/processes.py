"""One of the processes that train together, as torchrun and accelerate number them."""

from __future__ import annotations

import os


def rank() -> int:
    """Return the number of this process; 0 writes and speaks."""
    return int(os.environ.get("RANK", "0"))


def count() -> int:
    """Return how many processes train together."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def any_of_them(asked: bool) -> bool:
    """Return whether any process asks for something. All of them have to call this at the same point."""
    import torch
    from torch import distributed

    if not distributed.is_initialized():
        return asked
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    flag = torch.tensor(int(asked), device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item())
