"""The triangle update with channels first: one product for all projections, and no copy of a layout."""

import numpy as np
import torch

DEVICE = "cuda"


def solve(x: np.ndarray, left: np.ndarray, right: np.ndarray, gate: np.ndarray, rounds: int) -> np.ndarray:
    n, _, c = x.shape
    weights = torch.from_numpy(np.concatenate([left / n, right, gate], 1).T.copy()).to(DEVICE)
    flat = torch.from_numpy(x).to(DEVICE).reshape(n * n, c).T.contiguous()
    with torch.inference_mode():
        for _ in range(rounds):
            variance, mean = torch.var_mean(flat, 0, correction=0)
            projected = weights @ ((flat - mean) * (variance + 1e-5).rsqrt_())
            a, b, shut = projected.view(3, c, n, n)
            flat.addcmul_(torch.bmm(a, b.mT).view(c, n * n), shut.sigmoid_().view(c, n * n))
        return flat.T.reshape(n, n, c).cpu().numpy()
