"""How often a byte follows another."""

from array import array
from itertools import pairwise

counts = [[0.1] * 256 for _ in range(256)]


def fit(text: bytes, seconds: float, seed: int) -> None:
    for before, after in pairwise(text):
        counts[before][after] += 1


def start(n: int) -> bytes:
    return step(b"\n" * n)


def step(seen: bytes) -> bytes:
    return b"".join(array("f", counts[byte]).tobytes() for byte in seen)
