"""A submission, read as data: CSV with two columns, checked strictly."""

from __future__ import annotations

import math
import re
from collections.abc import Collection

MOST_BYTES = 1 << 20
NUMBER = re.compile(r"[+-]?(\d{1,30}(\.\d{0,30})?|\.\d{1,30})([eE][+-]?\d{1,3})?")


class SubmissionError(ValueError):
    """What is wrong with a submission, and where."""


def parsed(
    data: bytes, target: str, ids: Collection[str], *, lowest: float, highest: float
) -> dict[str, float]:
    """Return the predictions of a submission by id.

    Args:
        data: the file.
        target: the name of the second column.
        ids: the rows that must be there, each once, in any order.
        lowest: of a prediction.
        highest: of a prediction.

    Raises:
        SubmissionError: the header, a line, an id or a number is not as it must be.
    """
    try:
        lines = data.decode("ascii").splitlines()
    except UnicodeDecodeError as error:
        raise SubmissionError(f"byte {error.start} is not ASCII") from error
    if not lines or lines[0].strip() != f"id,{target}":
        raise SubmissionError(f"the first line must be `id,{target}`")
    found: dict[str, float] = {}
    for number, line in enumerate(lines[1:], start=2):
        name, comma, text = line.strip().partition(",")
        if not comma or not NUMBER.fullmatch(text):
            raise SubmissionError(f"line {number} is not an id, a comma and a decimal number")
        if name not in ids:
            raise SubmissionError(f"line {number} has an id that was not asked for")
        if name in found:
            raise SubmissionError(f"line {number} has an id for the second time")
        value = float(text)
        if not (math.isfinite(value) and lowest <= value <= highest):
            raise SubmissionError(f"line {number}: the prediction must be from {lowest:g} to {highest:g}")
        found[name] = value
    if missing := len(ids) - len(found):
        raise SubmissionError(f"{missing} of the {len(ids)} rows are missing")
    return found
