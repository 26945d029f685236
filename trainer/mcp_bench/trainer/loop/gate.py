"""Decide whether to promote a turn's model, from its scores on `dev` alone."""

from __future__ import annotations

from typing import Any

MOST_INVALID = 0.1
"""Above this share of invalid episodes, scores are not compared."""


def verdict(before: dict[str, Any], after: dict[str, Any], changed: dict[str, Any]) -> tuple[bool, str]:
    """Return whether to promote a model, and why.

    A model is promoted if it fixes at least as many tasks as it breaks and its mean partial credit on the
    same tasks is higher.

    Args:
        before: scores of the promoted model.
        after: scores of the new model.
        changed: flipped tasks and paired differences between the two.
    """
    for name, scores in (("the previous model", before), ("this model", after)):
        if too_many_invalid(scores):
            return False, f"{scores['invalid']} of {scores['episodes']} episodes of {name} are invalid"
    fixed, broken = len(changed["fail_to_pass"]), len(changed["pass_to_fail"])
    difference = changed["partial"]["difference"]
    if difference is None:
        return False, "no task was graded with both models"
    words = f"{fixed} tasks fixed, {broken} broken, partial {difference:+.3f}"
    return fixed >= broken and difference > 0, words


def too_many_invalid(scores: dict[str, Any]) -> bool:
    """Return whether so many episodes of a measurement are invalid that it is not compared."""
    return bool(scores["episodes"]) and scores["invalid"] / scores["episodes"] > MOST_INVALID
