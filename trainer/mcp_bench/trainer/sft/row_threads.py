"""Rows of a batch that are computed at the same time, each in a thread of its own.

Many operations of a small model are too short to be divided among the cores of a CPU, which wait for each
other at the end of each. A thread that computes a whole row waits once, and nothing is padded. Gradients are
added to the same tensors, which torch locks (https://docs.pytorch.org/docs/stable/notes/autograd.html,
"Multithreaded Autograd").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import torch

Inputs = dict[str, Any]
"""Tensors of shape (rows, tokens), by name."""


class RowThreads:
    """Threads that share the cores evenly.

    The sum of two rows' gradients does not depend on which comes first. With more rows, its last bits do.
    """

    def __init__(self, threads: int) -> None:
        cores = max(1, torch.get_num_threads() // threads)
        self._pool = ThreadPoolExecutor(threads, "row", torch.set_num_threads, (cores,))

    def sum(self, compute: Callable[[Inputs], torch.Tensor], inputs: Inputs) -> torch.Tensor:
        """Return the sum of the losses of all rows.

        Args:
            compute: returns the loss of a batch, after its backward pass.
            inputs: the batch.

        Raises:
            Exception: what `compute` raised for the first row that failed, once no other is being computed.
        """
        losses = [self._pool.submit(compute, row) for row in rows_of(inputs)]
        wait(losses)
        return torch.stack([loss.result() for loss in losses]).sum()


def rows_of(inputs: Inputs) -> Iterator[Inputs]:
    """Yield each row of a batch as a batch, up to its last trained token: what follows has no loss."""
    for row, labels in enumerate(inputs["labels"]):
        trained = (labels != -100).nonzero()
        end = int(trained[-1]) + 1 if len(trained) else len(labels)
        yield {name: tensor[row : row + 1, :end] for name, tensor in inputs.items()}
