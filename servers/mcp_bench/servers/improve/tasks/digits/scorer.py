"""Drawn digits of 8 by 8 points: seven-segment strokes, shifted, blurred and noisy."""

from random import Random
from typing import Any

import numpy as np

SEGMENTS = ["abcdef", "bc", "abged", "abgcd", "fgbc", "afgcd", "afgedc", "abc", "abcdefg", "abcdfg"]
PLACES = {
    "a": (0, 0, 1, 5),
    "b": (0, 4, 4, 5),
    "c": (3, 4, 7, 5),
    "d": (6, 0, 7, 5),
    "e": (3, 0, 7, 1),
    "f": (0, 0, 4, 1),
    "g": (3, 0, 4, 5),
}
"""Of each stroke: first row and column, and the ends."""


def question(rng: Random, part: str, settings: dict[str, Any]) -> tuple[str, list[Any], Any]:
    draw = np.random.default_rng(rng.getrandbits(64))
    number = settings["rows"] + settings["new"]
    drawn = draw.integers(0, 10, number)
    # which label means which digit, and where a point is, is drawn too: nothing learned before helps
    labels = draw.permutation(10)[drawn]
    images = np.stack([image(draw, int(digit)) for digit in drawn])[:, draw.permutation(64)]
    rows = settings["rows"]
    return (
        "solve",
        [images[:rows], labels[:rows], images[rows:], rng.getrandbits(30)],
        (labels[rows:], settings["accuracy"]),
    )


def image(draw: np.random.Generator, digit: int) -> Any:
    points = np.zeros((9, 9))
    top, left = draw.integers(0, 2), draw.integers(0, 3)
    for segment in SEGMENTS[digit]:
        y0, x0, y1, x1 = PLACES[segment]
        points[top + y0 : top + y1, left + x0 : left + x1] = draw.uniform(0.6, 1)
    blurred = (points[:-1, :-1] + points[1:, :-1] + points[:-1, 1:] + points[1:, 1:]) / 4
    return np.clip(blurred + draw.normal(0, 0.06, (8, 8)), 0, 1).ravel()


def check(hidden: Any, expected: Any, answer: Any) -> str:
    labels, least = hidden
    found = np.asarray(answer)
    if found.shape != labels.shape:
        return f"it must return {len(labels)} labels"
    share = float(np.mean(found == labels))
    return "" if share >= least else f"{share:.1%} are right, and {least:.0%} must be"
