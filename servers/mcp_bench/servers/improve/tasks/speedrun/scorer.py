"""Contexts of an English text, and what follows them."""

from random import Random
from typing import Any

import numpy as np

from mcp_bench.servers.improve.corpora import bible

LENGTH = 32


def question(rng: Random, part: str, settings: dict[str, Any]) -> tuple[str, list[Any], Any]:
    # which letter is which byte is drawn anew: nothing that was learned before helps
    table = list(range(256))
    rng.shuffle(table)
    whole = bible().translate(bytes(table))
    train, rows = settings["train"], settings["rows"]
    tenth = len(whole) // 10
    start = rng.randrange(6 * tenth - train)
    low, high = (7 * tenth, 8 * tenth) if part == "search" else (8 * tenth, 10 * tenth - LENGTH - 1)
    places = [rng.randrange(low, high) for _ in range(rows)]
    contexts = [whole[place : place + LENGTH] for place in places]
    following = [whole[place + LENGTH] for place in places]
    asked = [whole[start : start + train], contexts, rng.getrandbits(30)]
    return "solve", asked, (following, settings["loss"])


def check(hidden: Any, expected: Any, answer: Any) -> str:
    """Return what is wrong with probabilities: the next bytes, which are asked for, were never sent."""
    following, most = hidden
    found = np.asarray(answer, float)
    if found.shape != (len(following), 256) or not np.isfinite(found).all() or (found < 0).any():
        return f"it must return {len(following)} rows of 256 probabilities"
    shares = (found[np.arange(len(following)), following] + 1e-7) / (found.sum(1) + 256e-7)
    loss = float(-np.log2(shares).mean())
    return "" if loss <= most else f"the loss is {loss:.3f} bits/byte, and {most} is the target"
