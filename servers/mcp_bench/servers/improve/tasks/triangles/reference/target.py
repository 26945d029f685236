"""The triangle update as one product of matrices for all projections, and one for each channel."""

import numpy as np


def solve(x: np.ndarray, left: np.ndarray, right: np.ndarray, gate: np.ndarray) -> np.ndarray:
    n, _, c = x.shape
    flat = x.reshape(n * n, c)
    normal = flat - flat.mean(-1, keepdims=True)
    normal /= np.sqrt(np.einsum("ic,ic->i", normal, normal)[:, None] / np.float32(c) + np.float32(1e-5))
    a = np.ascontiguousarray((normal @ left).T).reshape(c, n, n)
    b = np.ascontiguousarray((normal @ right).T).reshape(c, n, n)
    triangles = (a @ b.transpose(0, 2, 1)).transpose(1, 2, 0)
    shut = normal @ gate
    np.exp(np.negative(shut, out=shut), out=shut)
    shut += 1
    return triangles / shut.reshape(n, n, c)
