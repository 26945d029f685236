"""A run as a list shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run and its progress.

    `planned` counts the slots of the run (0 in interactive use), `done` those that are graded or, in a run
    without a grader, ended validly.
    """

    id: str
    created_us: int
    benchmark: str
    agent: str
    model: str | None
    planned: int
    done: int
    tags: tuple[str, ...] = ()
    """The operator's words about the run, as `note`."""
    note: str = ""
