"""Choose the kind of rows of an export."""

from __future__ import annotations

from mcp_bench.recorder.export.pairs import MIN_MARGIN, Pairs
from mcp_bench.recorder.export.rows import Episodes, Rows
from mcp_bench.recorder.export.steps import Steps
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.registry import load


def rows_of(
    form: str | None = None, *, pairs: bool = False, margin: float | None = None, steps: bool = False,
    least: float = 0.0,
) -> Rows:  # fmt: skip
    """Return the kind of rows: one for each episode, pairs of attempts, or one for each call.

    Args:
        form: format of rows for episodes; trl by default.
        pairs: make preference pairs instead.
        margin: minimum difference between the grades of a pair.
        steps: make a row for each call instead, labelled by a replay.
        least: minimum grade of the better attempt of a pair.

    Raises:
        UnknownNameError: there is no such format.
        WrongUseError: several kinds were chosen, or `margin` without `pairs`.
    """
    kinds = [name for name, value in (("--format", form), ("--pairs", pairs), ("--steps", steps)) if value]
    if len(kinds) > 1:
        raise WrongUseError(f"{' and '.join(kinds)} exclude each other: choose one kind of row")
    if margin is not None and not pairs:
        raise WrongUseError("--margin has no effect without --pairs")
    if pairs:
        return Pairs(least=least, margin=MIN_MARGIN if margin is None else margin)
    if steps:
        return Steps()
    return Episodes(load("format", form or "trl")())
