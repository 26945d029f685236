"""The triangle update, written as its formula."""

import numpy as np


def solve(x: np.ndarray, left: np.ndarray, right: np.ndarray, gate: np.ndarray) -> np.ndarray:
    normal = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
    a = np.einsum("ijc,cd->ijd", normal, left)
    b = np.einsum("ijc,cd->ijd", normal, right)
    triangles = np.einsum("ikc,jkc->ijc", a, b)
    open_gate = 1 / (1 + np.exp(-np.einsum("ijc,cd->ijd", normal, gate)))
    return triangles * open_gate
