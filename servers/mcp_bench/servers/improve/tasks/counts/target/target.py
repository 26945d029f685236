"""Each cell's own counts, drawn towards the mean of all cells."""

import numpy as np

WEIGHT = 200.0


def solve(counts: np.ndarray) -> np.ndarray:
    mean = counts.sum(0) / counts.sum()
    return (counts + WEIGHT * mean) / (counts.sum(1, keepdims=True) + WEIGHT)
