"""The model that is trained: a small GPT. Its form cannot be changed; how its weights are found can."""

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

SYMBOLS, WINDOW, WIDTH, HEADS, LAYERS = 27, 32, 32, 2, 2
SHAPES = {"embed": (SYMBOLS, WIDTH), "place": (WINDOW, WIDTH), "head": (WIDTH, SYMBOLS)}
for layer in range(LAYERS):
    SHAPES |= {f"{name}{layer}": (WIDTH, WIDTH) for name in ("query", "key", "value", "out")}
    SHAPES |= {f"up{layer}": (WIDTH, 4 * WIDTH), f"down{layer}": (4 * WIDTH, WIDTH)}
HIDDEN = torch.ones(WINDOW, WINDOW, dtype=torch.bool).triu(1)


def norm(x: Tensor) -> Tensor:
    return x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt()


def loss(weights: dict[str, Tensor], windows: Tensor) -> Tensor:
    """Return the mean loss, in nats, of each window's symbols after the first; shape (n, WINDOW + 1)."""
    x = weights["embed"][windows[:, :-1]] + weights["place"]
    for layer in range(LAYERS):
        h = norm(x)
        q, k, v = (
            (h @ weights[f"{name}{layer}"]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
            for name in ("query", "key", "value")
        )
        scores = (q @ k.transpose(-1, -2)) * (WIDTH // HEADS) ** -0.5
        seen = scores.masked_fill(HIDDEN.to(x.device), float("-inf")).softmax(-1) @ v
        x = x + seen.transpose(1, 2).flatten(-2) @ weights[f"out{layer}"]
        x = x + (norm(x) @ weights[f"up{layer}"]).relu() @ weights[f"down{layer}"]
    return cross_entropy((norm(x) @ weights["head"]).flatten(0, 1), windows[:, 1:].flatten())
