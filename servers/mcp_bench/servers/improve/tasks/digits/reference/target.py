"""Random features and one system of linear equations (ridge regression)."""

import numpy as np

FEATURES, RIDGE = 300, 0.3


def solve(images: np.ndarray, labels: np.ndarray, new: np.ndarray, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    weights, shift = draw.normal(0, 0.5, (64, FEATURES)), draw.normal(0, 0.5, FEATURES)
    hidden = np.tanh((images - 0.5) @ weights + shift)
    found = np.linalg.solve(hidden.T @ hidden + RIDGE * np.eye(FEATURES), hidden.T @ np.eye(10)[labels])
    return (np.tanh((new - 0.5) @ weights + shift) @ found).argmax(1)
