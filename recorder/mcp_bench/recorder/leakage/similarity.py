"""Near duplicates of text: how alike two texts are, estimated from small sketches.

A text is the set of its runs of `SHINGLE` words (Broder, "On the resemblance and containment of
documents", 1997). Its sketch is the `SKETCH` smallest hashes of them (bottom-k), so that two sketches
estimate the Jaccard similarity of the whole sets; exact for texts with fewer shingles than that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import blake2b
from heapq import nsmallest
from typing import Any

import numpy as np
import numpy.typing as npt

SHINGLE = 5
"""Words in a run."""

SKETCH = 256
"""Hashes kept of a text; the standard error of an estimate is at most 1 / (2 * sqrt(SKETCH)) = 0.03."""

NEAR_DUPLICATE = 0.5
"""Similarity from which two texts count as near duplicates: most of a longer text is shared."""

Sketch = frozenset[int]
Runs = npt.NDArray[np.uint64]

_WORD = re.compile(r"\w+")
_SORTED = json.JSONEncoder(sort_keys=True, ensure_ascii=False).encode
# odd, so that no bit of a word's hash is lost; one for each place, so that the order counts
_PLACES = np.random.default_rng(2718).integers(0, 1 << 63, SHINGLE, dtype=np.uint64) << np.uint64(
    1
) | np.uint64(1)


def sketch(text: str) -> Sketch:
    """Return the sketch of a text."""
    return frozenset(nsmallest(SKETCH, shingles(text)))


def shingles(text: str) -> set[int]:
    """Return the hashes of a text's runs of words, 64 bits each. Case and punctuation do not count; a
    short text is one run."""
    return set(runs(text).tolist())


def calls_text(calls: Iterable[tuple[str, Any]]) -> str:
    """Return calls (a tool and its arguments each) as one text; how arguments are ordered does not count."""
    # one text for all takes half the time of one for each
    return _SORTED([[tool, arguments] for tool, arguments in calls])


def runs(text: str) -> Runs:
    """Return the hashes of a text's different runs of words, sorted, shape (runs,); of no words, none."""
    found = _WORD.findall(text.lower())
    words = np.fromiter(map(_word_hash, found), dtype=np.uint64, count=len(found))
    length = min(len(words), SHINGLE)
    if not length:
        return words
    count = len(words) - length + 1
    # a sum of products modulo 2**64, for all runs at once: hashing each one's text takes ten times as long
    sums = np.full(count, length, dtype=np.uint64)
    for place in range(length):
        sums += words[place : place + count] * _PLACES[place]
    return distinct(_mixed(sums))


def distinct(hashes: Runs) -> Runs:
    """Return the different ones of some hashes, sorted."""
    # by hand: on a few hundred numbers np.unique takes four times as long
    if not len(hashes):
        return hashes
    hashes = np.sort(hashes)
    first = np.empty(len(hashes), dtype=bool)
    first[0] = True
    np.not_equal(hashes[1:], hashes[:-1], out=first[1:])
    return hashes[first]


@lru_cache(maxsize=1 << 17)
def _word_hash(word: str) -> int:
    return int.from_bytes(blake2b(word.encode(), digest_size=8).digest())


def _mixed(numbers: Runs) -> Runs:
    """Mix the bits of each number (the last step of SplitMix64: Steele, Lea and Flood, 2014)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


def similarity(left: Sketch, right: Sketch) -> float:
    """Return the estimated Jaccard similarity of two texts, 0 to 1; an empty text is like nothing."""
    union = nsmallest(SKETCH, left | right)
    return sum(run in left and run in right for run in union) / len(union) if union else 0.0
