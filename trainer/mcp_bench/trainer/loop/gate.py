"""Whether a turn's model takes the place of the one before. Reads `dev` and nothing else."""

from __future__ import annotations

from typing import Any

MOST_INVALID = 0.1
"""Share of invalid episodes on either side from which on a comparison says nothing."""


def verdict(before: dict[str, Any], after: dict[str, Any], changed: dict[str, Any]) -> tuple[bool, str]:
    """Return whether to promote, and why, from the scores on `dev` and what changed between them.

    A model is promoted that fixes at least as many tasks as it breaks, and whose mean partial credit on the
    same tasks is higher.
    """
    for name, scores in (("the model before", before), ("this model", after)):
        if scores["episodes"] and scores["invalid"] / scores["episodes"] > MOST_INVALID:
            return False, f"{scores['invalid']} of {scores['episodes']} episodes of {name} are invalid"
    fixed, broken = len(changed["fail_to_pass"]), len(changed["pass_to_fail"])
    difference = changed["partial"]["difference"]
    if difference is None:
        return False, "no task was graded with both models"
    words = f"{fixed} tasks fixed, {broken} broken, partial {difference:+.3f}"
    return fixed >= broken and difference > 0, words
