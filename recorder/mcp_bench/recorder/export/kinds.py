"""Choose the kind of rows of an export."""

from __future__ import annotations

from dataclasses import replace

from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.recorder.export.pairs import MIN_MARGIN, Pairs
from mcp_bench.recorder.export.rows import Episodes, Rows
from mcp_bench.recorder.export.steps import Steps
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.registry import load


def rows_of(
    selection: Selection, form: str | None = None, *, pairs: bool = False, margin: float | None = None,
    steps: bool = False,
) -> tuple[Selection, Rows]:  # fmt: skip
    """Return the selection with the minimum partial score that it has by default, and the kind of rows.

    Rows are one for each episode, pairs of attempts, or one for each call. With pairs, the minimum applies to
    the better attempt only.

    Args:
        selection: which episodes.
        form: format of rows for episodes; trl by default.
        pairs: make preference pairs instead.
        margin: minimum difference between the grades of a pair.
        steps: make a row for each call instead, labelled by a replay.

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
        kind = Pairs(least=selection.least, margin=MIN_MARGIN if margin is None else margin)
        return replace(selection, min_partial=0.0), kind
    if steps:
        return replace(selection, min_partial=selection.min_partial or 0.0), Steps()
    return replace(selection, min_partial=selection.least), Episodes(load("format", form or "trl")())
