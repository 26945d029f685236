"""Settings of a loop. They are stored at the start and used again on resume."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, get_args

from mcp_bench.recorder.option_fields import AboveZero, Bounds, Count, Share, check_seed, option
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.methods import Algorithm, Online, Pairwise
from mcp_bench.trainer.trial.settings import Some, TrialSettings

PAIRS = get_args(Pairwise)
ONLINE = get_args(Online)


@dataclass(frozen=True, kw_only=True)
class LoopSettings(TrialSettings):
    """Models train on attempts at `train`. Scores on `dev` decide; scores on `test` are only reported."""

    turns: Count = option(1, "Maximum turns.")
    train: Some
    test: list[str]
    teacher: str = option("oracle", "Agent of the first turn.", metavar="A")
    teacher_model: str | None = option(None, "Model of the teacher.", metavar="M")
    teacher_options: list[str] = option(
        list,
        "Agent option of the teacher, such as slips=0.2 (repeatable).",
        name="teacher_option",
        metavar="KEY=VALUE",
    )
    min_partial: Share = option(
        0.5, "Train only on attempts with at least this share of the task's assertions met."
    )
    attempts: Count = option(
        2,
        "The model's attempts per training task from the second turn on, and the number of attempts kept.",
    )
    temperature: AboveZero = option(
        0.8,
        "Sampling temperature of these attempts. Measurements use the model's generation settings "
        "(default: greedy).",
    )
    patience: Count = option(2, "Stop after this many turns in a row without promotion.")
    seed: int = option(0, "Seed of the base model and the attempts.")
    algorithm: Algorithm = option(
        "sft",
        "How turns after the first learn. sft: from the teacher's and the best own attempts; dpo, kto: from "
        "pairs of the best model's attempts in this turn; the others: online, as `train rl`.",
    )
    margin: Annotated[float, Bounds(gt=0, le=1)] = option(
        0.3, "With dpo and kto: minimum difference between the grades of a pair."
    )
    rl_steps: Count = option(20, "Policy updates of a turn that learns online.")
    host: str = option(
        "127.0.0.1",
        "Address of this machine at which the measured model is served. With `-- --ray`, name one "
        "that the other machines reach.",
        metavar="ADDRESS",
    )
    record_options: list[str] = field(default_factory=list)
    """Other arguments of `mcp-bench record`, for all recordings."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_seed(self.seed)  # else the second turn would be the first to refuse it
        if self.algorithm in PAIRS and self.attempts < 2:
            raise WrongUseError(
                f"{self.algorithm} compares attempts at the same task: use --attempts 2 or more"
            )
