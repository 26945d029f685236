"""What a check found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

Verdict = Literal["ok", "warning", "failed", "not checked"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check.

    `failed` is what makes grades or training data wrong. `warning` is what the author should know and may
    want.
    """

    check: str
    verdict: Verdict
    summary: str
    reasons: Sequence[str] = ()
    figures: dict[str, float] = field(default_factory=dict)
    """What was measured, by name and unit."""


def judged(
    check: str,
    summary: str,
    failures: Iterable[str] = (),
    warnings: Iterable[str] = (),
    figures: dict[str, float] | None = None,
) -> Finding:
    """Return a finding whose verdict follows from its reasons. Equal reasons are named once."""
    bad, doubtful = dict.fromkeys(failures), dict.fromkeys(warnings)
    verdict: Verdict = "failed" if bad else "warning" if doubtful else "ok"
    return Finding(check, verdict, summary, (*bad, *doubtful), figures or {})
