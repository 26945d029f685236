"""Settings of an ablation. They are stored at the start and used again on resume."""

from __future__ import annotations

from dataclasses import dataclass, field

from mcp_bench.recorder.option_fields import Count, option
from mcp_bench.trainer.trial.settings import TrialSettings

COHORTS = ("high", "random", "low")
"""The best, any, and the worst attempts at each task; see recorder.curation.cohort."""


@dataclass(frozen=True, kw_only=True)
class AblationSettings(TrialSettings):
    """Each cohort selected from `runs` trains `seeds` models, which are measured on `dev`."""

    runs: list[str]
    """Runs to select from, fixed when the ablation starts."""
    size: Count = field(metadata={"help": "Rows per cohort.", "metavar": "N"})
    seeds: Count = option(3, "Models per cohort.")
