"""Choose the kind of rows of an export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast, get_args

from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.recorder.export.pairs import MIN_MARGIN, Pairs
from mcp_bench.recorder.export.rows import Episodes, Rows
from mcp_bench.recorder.export.steps import Steps
from mcp_bench.recorder.export.weighted import Weighted
from mcp_bench.recorder.formats import ImagesAs
from mcp_bench.recorder.formats.trl import Trl
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.registry import load


def rows_of(
    selection: Selection,
    form: str | None = None,
    *,
    pairs: bool = False,
    margin: float | None = None,
    steps: bool = False,
    images: str | None = None,
    step_weights: Mapping[str, float] | None = None,
) -> tuple[Selection, Rows]:
    """Return the selection with the minimum partial score that it has by default, and the kind of rows.

    Rows are one for each episode, pairs of attempts, or one for each call. With pairs, the minimum applies to
    the better attempt only.

    Args:
        selection: which episodes.
        form: format of rows for episodes; trl by default.
        pairs: make preference pairs instead.
        margin: minimum difference between the grades of a pair.
        steps: make a row for each call instead, labelled by a replay.
        step_weights: for trl: weights of turns by the labels of their calls.
        images: for trl: `files` or `base64`, to have images of results in the rows.

    Raises:
        UnknownNameError: there is no such format, or no such label.
        WrongUseError: several kinds were chosen, `margin` without `pairs`, or `images` without trl.
    """
    kinds = [name for name, value in (("--format", form), ("--pairs", pairs), ("--steps", steps)) if value]
    if len(kinds) > 1:
        raise WrongUseError(f"{' and '.join(kinds)} exclude each other: choose one kind of row")
    if pairs and (selection.strict or selection.min_score is not None or selection.min_par is not None):
        raise WrongUseError(
            "--strict, --min-score and --min-par cannot be used with --pairs: they would drop the worse "
            "attempts. --min-partial applies to the better ones alone"
        )
    if margin is not None and not pairs:
        raise WrongUseError("--margin has no effect without --pairs")
    if images is not None and (pairs or steps):
        raise WrongUseError("--images is for rows of episodes: leave it out, or --pairs and --steps")
    if step_weights:
        if pairs or steps or images is not None or (form or Trl.name) != Trl.name:
            raise WrongUseError("--step-weight is for rows of episodes in format trl, without --images")
        return replace(selection, min_partial=selection.least), Weighted(step_weights)
    if pairs:
        kind = Pairs(least=selection.least, margin=MIN_MARGIN if margin is None else margin)
        return replace(selection, min_partial=0.0), kind
    if steps:
        return replace(selection, min_partial=selection.min_partial or 0.0), Steps()
    if images is not None:
        if (form or Trl.name) != Trl.name or images not in get_args(ImagesAs):
            raise WrongUseError(
                f"--images {images} is not possible: it is files, base64 or text, for --format trl alone. "
                "openai rows always have the data of images; other rows name them in the text"
            )
        return replace(selection, min_partial=selection.least), Episodes(Trl(cast(ImagesAs, images)))
    return replace(selection, min_partial=selection.least), Episodes(load("format", form or Trl.name)())
