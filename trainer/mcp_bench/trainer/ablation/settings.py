"""What an ablation was asked for. It is stored when it begins, and holds when it goes on."""

from __future__ import annotations

from pydantic import PositiveInt

from mcp_bench.trainer.loop.settings import TrialSettings

COHORTS = ("high", "random", "low")
"""Of each task the best, any, and the worst attempts; see recorder.curation.cohort."""


class AblationSettings(TrialSettings):
    """Each cohort of `runs` trains `seeds` models, which work on `dev`."""

    runs: list[str]
    """Recordings to choose from: those that there were when it began."""
    size: PositiveInt
    """Rows of each cohort."""
    seeds: PositiveInt
