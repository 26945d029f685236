"""The result of an ablation: cohorts compared on the same tasks, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Any

from mcp_bench.recorder.scores.comparison import compare
from mcp_bench.recorder.scores.scores import summarise
from mcp_bench.trainer.ablation.settings import COHORTS
from mcp_bench.trainer.loop.gate import MOST_INVALID
from mcp_bench.trainer.trial.scores import SCORES, episodes_of

Arm = Mapping[str, Any]
"""A cohort: the common `model` name, and for each of `seeds` the scores and their `run`."""


def result(arms: Mapping[str, Arm]) -> dict[str, Any]:
    """Return mean scores of each cohort with 95 % intervals, the paired differences, and the verdict.

    The bootstrap resamples tasks, with the mean of their episodes over all seeds. The scores of single seeds
    show how much seeds differ.
    """
    episodes = {
        name: [one for seed in arm["seeds"] for one in episodes_of(seed["run"])] for name, arm in arms.items()
    }
    cohorts = {}
    for name, arm in arms.items():
        [row] = summarise(episodes[name], ())
        cohorts[name] = {**arm, **{key: row[key] for key in SCORES}}
    differences = []
    for better, worse in combinations(COHORTS, 2):
        a, b = (f"model={arms[name]['model']}" for name in (worse, better))
        [row] = compare([*episodes[worse], *episodes[better]], a, b, ())["rows"]
        seeds = [
            None not in (ours["partial"], theirs["partial"])
            # rounded as differences are: the same credits of other tasks would leave 1e-16
            and round(ours["partial"] - theirs["partial"], 12) > 0
            for ours, theirs in zip(arms[better]["seeds"], arms[worse]["seeds"], strict=True)
        ]
        found = {key: row[key] for key in ("common_tasks", "partial", "strict")}
        differences.append({"a": worse, "b": better, **found, "seeds": len(seeds), "better_in": sum(seeds)})
    return {"cohorts": cohorts, "differences": differences, "verdict": verdict(cohorts, differences)}


def verdict(cohorts: Mapping[str, Arm], differences: Sequence[Mapping[str, Any]]) -> str:
    """Return as text whether the cohort `high` trained a better model than the cohort `low`."""
    for name in ("high", "low"):
        invalid, episodes = cohorts[name]["invalid"], cohorts[name]["episodes"]
        if episodes and invalid / episodes > MOST_INVALID:
            return f"inconclusive: {invalid} of {episodes} episodes of the cohort {name} are invalid"
    [found] = [row for row in differences if (row["a"], row["b"]) == ("low", "high")]
    difference, interval = found["partial"]["difference"], found["partial"]["difference_ci"]
    if difference is None or interval is None:
        return "inconclusive: the cohorts have too few graded tasks in common"
    figures = (
        f"high - low: partial {difference:+.3f} [{interval[0]:+.3f}, {interval[1]:+.3f}],"
        f" higher in {found['better_in']} of {found['seeds']} seeds"
    )
    if interval[0] > 0 and found["better_in"] == found["seeds"]:
        return f"separated, the high cohort trains the better model ({figures})"
    if interval[1] < 0 and not found["better_in"]:
        return f"separated in reverse, the low cohort trains the better model ({figures})"
    return f"not separated ({figures})"
