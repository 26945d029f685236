"""Train the model of gpt.py with Adam until its loss on a part of the text is low enough."""

import gpt
import numpy as np
import torch

RATE, BATCH, LOOK, MARGIN = 3e-4, 32, 50, 0.1


def solve(text: np.ndarray, target: float, seed: int) -> dict[str, np.ndarray]:
    torch.manual_seed(seed)
    windows = torch.from_numpy(text).long().unfold(0, gpt.WINDOW + 1, 1)
    apart = windows[-len(windows) // 10 :: gpt.WINDOW + 1]
    training = windows[: -len(windows) // 10 - gpt.WINDOW]
    weights = {name: (0.05 * torch.randn(shape)).requires_grad_() for name, shape in gpt.SHAPES.items()}
    first = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    second = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    step = 0
    while True:
        step += 1
        loss = gpt.loss(weights, training[torch.randint(len(training), (BATCH,))])
        gradients = torch.autograd.grad(loss, list(weights.values()))
        with torch.no_grad():
            for (name, weight), gradient in zip(weights.items(), gradients, strict=True):
                first[name].lerp_(gradient, 0.1)
                second[name].lerp_(gradient**2, 0.01)
                scale = (second[name] / (1 - 0.99**step)).sqrt() + 1e-8
                weight -= RATE * first[name] / (1 - 0.9**step) / scale
            if step % LOOK == 0 and gpt.loss(weights, apart) < target - MARGIN:
                return {name: weight.numpy() for name, weight in weights.items()}
