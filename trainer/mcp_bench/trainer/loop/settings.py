"""Settings of a loop. They are stored at the start and used again on resume."""

from __future__ import annotations

from typing import Self, get_args

from pydantic import Field, PositiveInt, model_validator

from mcp_bench.trainer.methods import Algorithm, Online, Pairwise
from mcp_bench.trainer.trial.settings import TrialSettings

PAIRS = get_args(Pairwise)
ONLINE = get_args(Online)


class LoopSettings(TrialSettings):
    """Models train on attempts at `train`. Scores on `dev` decide; scores on `test` are only reported."""

    turns: PositiveInt
    train: list[str] = Field(min_length=1)
    test: list[str]
    teacher: str
    teacher_model: str | None = None
    teacher_options: list[str] = Field(default=[])
    """Agent options of the teacher, KEY=VALUE."""
    min_partial: float = Field(default=0.5, ge=0, le=1)
    attempts: PositiveInt = 2
    """The model's attempts per training task, from the second turn on."""
    temperature: float = Field(default=0.8, gt=0)
    patience: PositiveInt = 2
    """The loop ends after this many turns in a row without promotion."""
    seed: int = 0
    algorithm: Algorithm = "sft"
    """Of the turns after the first, which imitates the teacher."""
    margin: float = Field(default=0.3, gt=0, le=1)
    """Least difference between the grades of a pair."""
    rl_steps: PositiveInt = 20
    """Policy updates of a turn that learns online."""
    host: str = "127.0.0.1"
    """Address of this machine at which the model that is measured is served."""
    record_options: list[str] = Field(default=[])
    """Other arguments of `mcp-bench record`, for all recordings."""

    @model_validator(mode="after")
    def _pairs_need_two(self) -> Self:
        if self.algorithm in PAIRS and self.attempts < 2:
            raise ValueError(f"{self.algorithm} compares attempts at the same task: use --attempts 2 or more")
        return self
