"""One optimizer with Muon for hidden matrices and AdamW for all other parameters.

It is a single class because accelerate wraps and restores one optimizer; a facade over two loses their state.
Muon: Jordan et al. 2024, https://kellerjordan.github.io/posts/muon. AdamW: https://arxiv.org/abs/1711.05101.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

MOMENTUM = 0.95
BETAS = (0.9, 0.95)
EPSILON = 1e-8
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of the quintic iteration of the reference implementation."""
ITERATIONS = 5


class MuonAdamW(Optimizer):
    """Muon with rate `muon_lr` for matrices inside the layers; AdamW with rate `lr` for everything else.

    The update of a matrix has singular values near `sqrt(max(1, rows / columns))`.
    """

    def __init__(self, model: nn.Module, *, lr: float, muon_lr: float, weight_decay: float = 0.0) -> None:
        named = [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
        hidden = [weight for name, weight in named if weight.ndim == 2 and _in_a_layer(name)]
        ids = {id(weight) for weight in hidden}
        rest = [weight for _, weight in named if id(weight) not in ids]
        groups = [
            {"params": hidden, "lr": muon_lr, "muon": True, "weight_decay": weight_decay},
            {"params": rest, "lr": lr, "muon": False, "weight_decay": 0.0},
        ]
        super().__init__([group for group in groups if group["params"]], {})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            update = _muon if group["muon"] else _adam
            given = [weight for weight in group["params"] if weight.grad is not None]
            for weight, change in zip(given, update(given, self.state), strict=True):
                weight.mul_(1 - group["lr"] * group["weight_decay"])
                weight.add_(change, alpha=-group["lr"])
        return loss


def _in_a_layer(name: str) -> bool:
    """Return whether a matrix is inside a layer, which has a number. Embeddings and the head are outside."""
    return any(part.isdecimal() for part in name.split("."))


def _muon(weights: Sequence[Tensor], states: Mapping[Tensor, dict[str, Any]]) -> list[Tensor]:
    """Return the updates of matrices. Matrices of the same shape are batched for speed."""
    shapes: dict[torch.Size, list[int]] = {}
    updates: list[Tensor] = []
    for number, weight in enumerate(weights):
        state, gradient = states[weight], weight.grad
        assert gradient is not None  # noqa: S101 - step() passes only weights with gradients
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(weight)
        momentum: Tensor = state["momentum"].lerp_(gradient, 1 - MOMENTUM)
        updates.append(gradient.lerp(momentum, MOMENTUM))  # Nesterov momentum
        shapes.setdefault(weight.shape, []).append(number)
    for (rows, columns), numbers in shapes.items():
        scale = max(1, rows / columns) ** 0.5
        turned = _orthogonal(torch.stack([updates[number] for number in numbers])) * scale
        for number, update in zip(numbers, turned.unbind(), strict=True):
            updates[number] = update
    return updates


def _orthogonal(matrices: Tensor) -> Tensor:
    """Approximate U V' for each matrix U S V'; shape (matrices, rows, columns)."""
    a, b, c = NEWTON_SCHULZ
    tall = matrices.size(-2) > matrices.size(-1)
    x = matrices.mT if tall else matrices
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    for _ in range(ITERATIONS):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    turned: Tensor = x.mT if tall else x
    return turned


def _adam(weights: Sequence[Tensor], states: Mapping[Tensor, dict[str, Any]]) -> Iterator[Tensor]:
    for weight in weights:
        state, gradient = states[weight], weight.grad
        assert gradient is not None  # noqa: S101 - step() passes only weights with gradients
        if "mean" not in state:
            state |= {
                "step": torch.zeros(()),
                "mean": torch.zeros_like(weight),
                "square": torch.zeros_like(weight),
            }
        state["step"] += 1
        mean: Tensor = state["mean"].lerp_(gradient, 1 - BETAS[0])
        square: Tensor = state["square"].mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        steps = state["step"].item()
        corrected = (square / (1 - BETAS[1] ** steps)).sqrt_().add_(EPSILON)
        yield mean / (1 - BETAS[0] ** steps) / corrected
