"""Counts after up to four bytes, mixed by Witten and Bell's rule (1991), for the contexts that are asked."""

import numpy as np

ORDER = 4


def solve(text, contexts, seed):
    data = np.frombuffer(text, np.uint8)
    seen = np.frombuffer(b"".join(contexts), np.uint8).reshape(len(contexts), -1)
    found = np.full((len(contexts), 256), 1 / 256)
    for order in range(ORDER + 1):
        size = len(data) - ORDER
        before, asked = np.zeros(size, np.int64), np.zeros(len(seen), np.int64)
        for place in range(order):
            before = before * 256 + data[ORDER - order + place : ORDER - order + place + size]
            asked = asked * 256 + seen[:, seen.shape[1] - order + place]
        keys, row = np.unique(asked, return_inverse=True)
        spot = np.minimum(np.searchsorted(keys, before), len(keys) - 1)
        hit = keys[spot] == before
        counts = np.bincount(spot[hit] * 256 + data[ORDER:][hit], minlength=256 * len(keys))
        counts = counts.reshape(-1, 256)[row]
        total, kinds = counts.sum(1, keepdims=True), (counts > 0).sum(1, keepdims=True)
        known = total[:, 0] > 0
        found[known] = ((counts + found * kinds) / np.maximum(total + kinds, 1))[known]
    return found
