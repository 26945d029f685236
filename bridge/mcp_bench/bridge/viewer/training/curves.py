"""Line charts as inline SVG: what a training run measured in each step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Any

from mcp_bench.bridge.viewer.training.facts import number

WIDTH, HEIGHT = 320.0, 96.0
MOST_POINTS = 160
"""With more steps, each point is the mean of several."""
NAMES = {
    "loss": "loss",
    "held_out_loss": "loss on held-out rows",
    "exact_turns": "share of held-out turns said exactly",
    "mean_token_accuracy": "tokens predicted right",
    "reward": "mean reward",
    "strict": "share solved",
    "flat": "share of groups that teach nothing",
    "kl": "KL divergence to the start",
    "entropy": "entropy",
    "grad_norm": "norm of the gradient",
    "learning_rate": "learning rate",
    "calls": "calls per episode",
    "cut": "attempts that a limit of tokens ended",
    "invalid": "invalid episodes",
    "tokens_per_second": "tokens per second",
    "seconds": "seconds per step",
}
"""What is drawn, in this order. Other numbers come after them."""
_NOT_DRAWN = {"step", "steps", "epoch", "num_tokens", "tokens", "memory_bytes", "episodes", "rows"}


@dataclass(frozen=True, slots=True)
class Curve:
    """One measured quantity over the steps. `points` are for an SVG of `WIDTH` by `HEIGHT`."""

    name: str
    words: str
    points: str
    first: float
    last: float
    low: float
    high: float
    first_step: int
    last_step: int
    window: int
    """Steps that each point is the mean of."""


def curves(lines: Sequence[dict[str, Any]]) -> list[Curve]:
    """Return a curve for each quantity in the lines of `metrics.jsonl` that was measured twice."""
    keys = dict.fromkeys(key for line in lines for key in line)
    ordered = [key for key in NAMES if key in keys]
    ordered += [key for key in keys if key not in NAMES and key not in _NOT_DRAWN]
    made = [curve(key, [(step, line.get(key)) for step, line in _steps(lines)]) for key in ordered]
    return [one for one in made if one is not None]


def held_out_curves(lines: Sequence[dict[str, Any]]) -> list[Curve]:
    """Return the curves of a run's held-out rows, from the lines of `evaluations.jsonl`."""
    drawn = []
    for line in lines:
        exact, turns = number(line.get("exact_turns")), number(line.get("turns"))
        share = exact / turns if exact is not None and turns else None
        drawn.append({"step": line.get("step"), "held_out_loss": line.get("loss"), "exact_turns": share})
    return curves(drawn)


def curve(name: str, pairs: Sequence[tuple[int, object]]) -> Curve | None:
    """Return the curve through `(step, value)`; None if fewer than two values are numbers."""
    known = [(step, value) for step, found in pairs if (value := number(found)) is not None]
    if len(known) < 2:
        return None
    window = ceil(len(known) / MOST_POINTS)
    means = [
        (group[-1][0], fmean(value for _, value in group))
        for at in range(0, len(known), window)
        if (group := known[at : at + window])
    ]
    values = [value for _, value in means]
    low, high = min(*values, 0.0), max(values)
    begin, end = means[0][0], means[-1][0]
    across, up = max(1, end - begin), (high - low) or 1.0
    points = " ".join(
        f"{WIDTH * (step - begin) / across:.1f},{HEIGHT - HEIGHT * (value - low) / up:.1f}"
        for step, value in means
    )
    return Curve(
        name,
        NAMES.get(name, name.replace("_", " ")),
        points,
        known[0][1],
        known[-1][1],
        low,
        high,
        known[0][0],
        known[-1][0],
        window,
    )


def _steps(lines: Sequence[dict[str, Any]]) -> list[tuple[int, dict[str, Any]]]:
    numbers = [number(line.get("step")) for line in lines]
    return [(at + 1 if step is None else int(step), lines[at]) for at, step in enumerate(numbers)]
