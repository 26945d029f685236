"""Near duplicates of text: how alike two texts are, estimated from small sketches.

A text is the set of its runs of `SHINGLE` words (Broder, "On the resemblance and containment of
documents", 1997). Its sketch is the `SKETCH` smallest hashes of them (bottom-k), so that two sketches
estimate the Jaccard similarity of the whole sets; exact for texts with fewer shingles than that.
"""

from __future__ import annotations

import re
from hashlib import blake2b
from heapq import nsmallest

SHINGLE = 5
"""Words in a run."""

SKETCH = 256
"""Hashes kept of a text; the standard error of an estimate is at most 1 / (2 * sqrt(SKETCH)) = 0.03."""

NEAR_DUPLICATE = 0.5
"""Similarity from which two texts count as near duplicates: most of a longer text is shared."""

Sketch = frozenset[int]

_WORD = re.compile(r"\w+")


def sketch(text: str) -> Sketch:
    """Return the sketch of a text."""
    return frozenset(nsmallest(SKETCH, shingles(text)))


def shingles(text: str) -> set[int]:
    """Return the hashes of a text's runs of words, 64 bits each. Case and punctuation do not count; a
    short text is one run."""
    words = _WORD.findall(text.lower())
    runs = {" ".join(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))}
    return {int.from_bytes(blake2b(run.encode(), digest_size=8).digest()) for run in runs}


def similarity(left: Sketch, right: Sketch) -> float:
    """Return the estimated Jaccard similarity of two texts, 0 to 1; an empty text is like nothing."""
    union = nsmallest(SKETCH, left | right)
    return sum(run in left and run in right for run in union) / len(union) if union else 0.0
