"""The change of each weight matrix between two checkpoints: its size, and how many directions it has."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.base_weights import safetensors_files

SHOWN = 8
"""The largest singular values that are kept of each change."""
ENERGY = 0.9


@dataclass(frozen=True)
class Change:
    """The change of one tensor, D = W' - W.

    With sv the singular values of D, and p = sv / sum(sv). Vectors have no singular values.
    """

    name: str
    shape: tuple[int, ...]
    size: float
    """Frobenius norm of D."""
    relative: float
    """Frobenius norm of D over that of W."""
    entries: float
    """Share of the numbers that differ."""
    singular: tuple[float, ...] = ()
    """The `SHOWN` largest."""
    effective_rank: float | None = None
    """exp of the entropy of p (Roy & Vetterli 2007, https://ieeexplore.ieee.org/document/7098875)."""
    stable_rank: float | None = None
    """|D|_F^2 / max(sv)^2."""
    directions: int | None = None
    """How many singular values hold 90 % of |D|_F^2."""


def changes(base: Path, model: Path) -> Iterator[Change]:
    """Yield the change of each tensor, in the model's order. One tensor of each is in memory at a time.

    Args:
        base: folder with safetensors.
        model: the same for the model after training.

    Raises:
        WrongUseError: a folder has no safetensors, or the two are not of one architecture.
    """
    with ExitStack() as open_files:
        before, after = _tensors(base, open_files), _tensors(model, open_files)
        common = [name for name in after if name in before]
        if not common:
            raise WrongUseError(f"{model} and {base} have no tensor of the same name: is this its base?")
        for name in common:
            old, new = before[name].get_tensor(name), after[name].get_tensor(name)
            if old.shape != new.shape:
                raise WrongUseError(
                    f"{name} has the shape {tuple(new.shape)} in {model} and {tuple(old.shape)} in {base}: "
                    "is this its base?"
                )
            yield change(name, old, new)


def change(name: str, before: Tensor, after: Tensor) -> Change:
    """Return the change of one tensor. The last axis of a tensor with more than two is its columns."""
    old, new = before.double(), after.double()
    difference = new - old
    size, own = float(difference.norm()), float(old.norm())
    found = Change(
        name=name,
        shape=tuple(after.shape),
        size=size,
        relative=size / own if own else float(size > 0),
        entries=float((difference != 0).double().mean()),
    )
    if difference.ndim < 2 or not size:
        return found
    singular = singular_values(difference.reshape(-1, difference.shape[-1]))
    shares = singular / singular.sum()
    positive = shares[shares > 0]
    energy = (singular**2).cumsum(0) / (singular**2).sum()
    return Change(
        found.name,
        found.shape,
        found.size,
        found.relative,
        found.entries,
        singular=tuple(singular[:SHOWN].tolist()),
        effective_rank=float(torch.exp(-(positive * positive.log()).sum())),
        stable_rank=float((singular**2).sum() / singular[0] ** 2),
        directions=int((energy < ENERGY - 1e-12).sum()) + 1,
    )


def singular_values(matrix: Tensor) -> Tensor:
    """Return the singular values of a float64 matrix, largest first.

    They are the roots of the eigenvalues of the smaller of the two Gram matrices: an embedding of 49,152 rows
    then takes a product and a small problem. Values below 1e-7 of the largest are rounding, and are 0.
    """
    gram = matrix.T @ matrix if matrix.shape[0] >= matrix.shape[1] else matrix @ matrix.T
    squares = torch.linalg.eigvalsh(gram).flip(0).clamp(min=0)
    values: Tensor = squares.sqrt()
    values[values < 1e-7 * values[0]] = 0
    return values


def _tensors(folder: Path, open_files: ExitStack) -> dict[str, Any]:
    """Return for each tensor the open file that has it."""
    from safetensors import safe_open

    found: dict[str, Any] = {}
    for path in safetensors_files(folder):
        file = open_files.enter_context(safe_open(path, framework="pt"))
        found |= dict.fromkeys(file.keys(), file)
    return found
