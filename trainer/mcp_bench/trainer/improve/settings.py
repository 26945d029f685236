"""Settings of an improvement. They are stored at the start and used again on resume."""

from __future__ import annotations

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
)

from mcp_bench.trainer.improve.policy import Kind
from mcp_bench.trainer.trial.settings import TrialSettings


class Budget(BaseModel):
    """What an improvement may use in all; None is no limit. No recording starts that would exceed it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    episodes: NonNegativeInt | None = None
    tokens: NonNegativeInt | None = None
    """Input and output, of the agent and of the feedback agent, as they report them."""
    usd: NonNegativeFloat | None = None
    """Likewise."""
    hours: NonNegativeFloat | None = None
    """Of recording and training."""


class ImproveSettings(TrialSettings):
    """A harness and, with a recipe, a model's weights are changed; `dev` decides, `test` is only reported."""

    id: str = ""
    """In the tags of its runs: a folder can be moved, or made again at the same place."""
    recipe: str = ""
    """Empty: the model stays as it is."""
    train: list[str] = Field(min_length=1)
    confirm: list[str] = Field(min_length=1)
    """The half of dev that no change is chosen on."""
    test: list[str] = Field(default_factory=list)
    agent: str = "chat"
    """It attempts the tasks. With a recipe it is `chat`, with the model that is trained."""
    model: str | None = None
    base_url: str | None = None
    agent_options: list[str] = Field(default_factory=list)
    """KEY=VALUE."""
    record_options: list[str] = Field(default_factory=list)
    """Other arguments of `mcp-bench record`."""
    policy: str = "agent"
    feedback_agent: str | None = None
    """It reads the recordings and proposes changes."""
    feedback_model: str | None = None
    feedback_base_url: str | None = None
    feedback_options: list[str] = Field(default_factory=list)
    feedback_timeout: PositiveFloat = 1800.0
    """Seconds for its session."""
    candidates: NonNegativeInt = 0
    """Number of the operator's own harnesses, tried in place of proposals of an agent."""
    generations: PositiveInt
    patience: PositiveInt
    """It ends after this many generations in a row without promotion."""
    repeats: PositiveInt = 2
    """Attempts at each task of `dev` and `test`; twice as many where the first ones leave it unclear."""
    min_partial: float = Field(default=0.5, ge=0, le=1)
    """Of episodes to train on, where the policy chose training."""
    best: PositiveInt = 2
    seed: int = 0
    reveal: bool = False
    """Whether the feedback agent sees the assertions of training tasks."""
    budget: Budget = Budget()

    rl_steps: NonNegativeInt = 0
    """Steps of a training from reward; 0: that is not tried."""

    @property
    def trainable(self) -> bool:
        return bool(self.recipe)

    @property
    def kinds(self) -> list[Kind]:
        """What can be tried."""
        found: list[Kind] = ["harness"]
        found += ["train"] if self.recipe else []
        return [*found, "rl"] if self.recipe and self.rl_steps else found
