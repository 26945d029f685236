"""Near duplicates among very many texts, by MinHash and locality-sensitive hashing.

MinHash: Broder, "On the resemblance and containment of documents", 1997. Banding: Leskovec, Rajaraman
and Ullman, "Mining of massive datasets", chapter 3. Texts are sets of runs of words, as in `similarity`.
"""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from mcp_bench.recorder.curation.candidate import Signature
from mcp_bench.recorder.leakage.similarity import runs

HASHES = 128
"""In a signature; the standard error of an estimate is at most 1 / (2 * sqrt(HASHES)) = 0.044."""

_RECALL = 0.99
"""Least chance that two texts just as alike as asked for are compared at all."""

_generator = np.random.default_rng(1997)
_FACTORS = _generator.integers(0, 1 << 63, HASHES, dtype=np.uint64) << np.uint64(1) | np.uint64(1)
_SHIFTS = _generator.integers(0, 1 << 63, HASHES, dtype=np.uint64)
_TOP_HALF = np.uint64(32)


def signature(text: str) -> Signature:
    """Return the MinHash signature of a text, shape (HASHES,)."""
    hashes = runs(text)
    smallest = np.full(HASHES, np.iinfo(np.uint64).max)
    for start in range(0, len(hashes), 4096):  # a long text is no matrix of gigabytes
        # multiplication modulo 2**64 and addition: each row orders the shingles in another way
        mixed = _FACTORS[:, None] * hashes[None, start : start + 4096] + _SHIFTS[:, None]
        smallest = np.minimum(smallest, mixed.min(axis=1))
    return (smallest >> _TOP_HALF).astype(np.uint32)


class SimilarTexts:
    """Signatures, found again by a similar one."""

    def __init__(self, threshold: float) -> None:
        """Find texts whose estimated Jaccard similarity is `threshold` or more, 0 to 1."""
        self._threshold = threshold
        self._rows = max(rows for rows in (1, 2, 4, 8, 16) if rows == 1 or _found(threshold, rows) >= _RECALL)
        self._bands: list[defaultdict[bytes, list[int]]] = [
            defaultdict(list) for _ in range(HASHES // self._rows)
        ]
        self._names: list[str] = []
        self._signatures = np.empty((1024, HASHES), dtype=np.uint32)

    def add(self, name: str, signature: Signature) -> None:
        if len(self._names) == len(self._signatures):
            self._signatures = np.concatenate([self._signatures, np.empty_like(self._signatures)])
        self._signatures[len(self._names)] = signature
        for band, key in zip(self._bands, self._keys(signature), strict=True):
            band[key].append(len(self._names))
        self._names.append(name)

    def most_similar(self, signature: Signature) -> tuple[str, float] | None:
        """Return the name of the text that is most like this one, and how much; None below the threshold."""
        near = {
            at
            for band, key in zip(self._bands, self._keys(signature), strict=True)
            for at in band.get(key, ())
        }
        if not near:
            return None
        rows = sorted(near)
        shares = (self._signatures[rows] == signature).mean(axis=1)
        first = int(shares.argmax())
        return (self._names[rows[first]], float(shares[first])) if shares[first] >= self._threshold else None

    def _keys(self, signature: Signature) -> list[bytes]:
        data, width = signature.tobytes(), self._rows * signature.itemsize
        return [data[at : at + width] for at in range(0, len(data), width)]


def _found(similarity: float, rows: int) -> float:
    """Return the chance that two texts share one of the bands of so many rows."""
    return float(1 - (1 - similarity**rows) ** (HASHES // rows))
