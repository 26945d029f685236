"""How much text two episodes or tasks share, and near duplicates among very many texts.

A text is the set of its shingles: the hashes of its runs of `SHINGLE` words. The similarity of two texts is
that of their sets (Jaccard). `leakage` looks up the shingles of a row in a held-out split, which is exact.
`export --dedupe near` compares every episode with every other: it keeps a MinHash signature of each text
(Broder, "On the resemblance and containment of documents", 1997) and compares only texts that share a band of
it (locality-sensitive hashing: Leskovec, Rajaraman and Ullman, "Mining of massive datasets", chapter 3).

The library datasketch does the same. On 6,000 texts it took 3.0 times the CPU for the signatures, as much for
the index, and 2.4 times the memory, and it depends on SciPy (113 MB).
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from typing import Any

import numpy as np
import numpy.typing as npt

SHINGLE = 5
"""Words in a shingle."""

HASHES = 128
"""Hashes in a signature; the standard error of an estimate is at most 1 / (2 * sqrt(HASHES)) = 0.044."""

Shingles = npt.NDArray[np.uint64]
"""Different hashes, sorted, shape (shingles,)."""
Signature = npt.NDArray[np.uint32]
"""Shape (HASHES,)."""

_RECALL = 0.99
"""Least chance that two texts exactly as similar as the threshold are compared at all."""

_WORD = re.compile(r"\w+")
_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
# odd factors lose no bit of a hash; one for each place, so that the order of words counts
_PLACES = np.random.default_rng(2718).integers(0, 1 << 63, SHINGLE, dtype=np.uint64) << np.uint64(
    1
) | np.uint64(1)

_generator = np.random.default_rng(1997)
_FACTORS = _generator.integers(0, 1 << 63, HASHES, dtype=np.uint64) << np.uint64(1) | np.uint64(1)
_SHIFTS = _generator.integers(0, 1 << 63, HASHES, dtype=np.uint64)
_TOP_HALF = np.uint64(32)


def calls_text(calls: Iterable[tuple[str, Any]]) -> str:
    """Return calls (a tool and its arguments each) as one text. The order of arguments does not count."""
    # one text for all takes half the time of one for each
    return _SORTED([[tool, arguments] for tool, arguments in calls])


def shingles(text: str) -> Shingles:
    """Return the shingles of a text, 64 bits each.

    Case and punctuation do not count. A text of fewer than `SHINGLE` words is one shingle; one without words
    has none.
    """
    found = _WORD.findall(text.lower())
    words = np.fromiter(map(_word_hash, found), dtype=np.uint64, count=len(found))
    length = min(len(words), SHINGLE)
    if not length:
        return words
    count = len(words) - length + 1
    # a sum of products modulo 2**64 for all at once: hashing the text of each takes ten times as long
    sums = np.full(count, length, dtype=np.uint64)
    for place in range(length):
        sums += words[place : place + count] * _PLACES[place]
    return distinct(_mixed(sums))


def distinct(hashes: Shingles) -> Shingles:
    """Return the different hashes, sorted."""
    # on a few hundred numbers np.unique takes four times as long
    if not len(hashes):
        return hashes
    hashes = np.sort(hashes)
    first = np.empty(len(hashes), dtype=bool)
    first[0] = True
    np.not_equal(hashes[1:], hashes[:-1], out=first[1:])
    return hashes[first]


def signature(text: str) -> Signature:
    """Return the MinHash signature of a text."""
    hashes = shingles(text)
    smallest = np.full(HASHES, np.iinfo(np.uint64).max)
    for start in range(0, len(hashes), 4096):  # bounds the matrix for a long text
        # multiplication modulo 2**64 and addition: each row orders the shingles differently
        mixed = _FACTORS[:, None] * hashes[None, start : start + 4096] + _SHIFTS[:, None]
        smallest = np.minimum(smallest, mixed.min(axis=1))
    return (smallest >> _TOP_HALF).astype(np.uint32)


def similarity(left: Signature, right: Signature) -> float:
    """Return the estimated Jaccard similarity of two texts, 0 to 1."""
    return float((left == right).mean())


class SimilarTexts:
    """An index that finds a signature by a similar one."""

    def __init__(self, threshold: float) -> None:
        """Make an empty index.

        Args:
            threshold: Texts are similar from this estimated Jaccard similarity on, 0 to 1.
        """
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
        """Return the name of the most similar text and its similarity, or None below the threshold."""
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
    """Return the chance that two texts share one of the bands of `rows` hashes."""
    return float(1 - (1 - similarity**rows) ** (HASHES // rows))


@lru_cache(maxsize=1 << 17)
def _word_hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest())


def _mixed(numbers: Shingles) -> Shingles:
    """Mix the bits of each number (the last step of SplitMix64: Steele, Lea and Flood, 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))
