"""Settings of an improvement. They are stored at the start and used again on resume."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from mcp_bench.recorder.option_fields import AboveZero, Bounds, Count, Share
from mcp_bench.trainer.improve.policy import Kind
from mcp_bench.trainer.trial.settings import Some, TrialSettings


@dataclass(frozen=True)
class Budget:
    """What an improvement may use in all; None is no limit. No recording starts that would exceed it."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "allow_inf_nan": False}

    episodes: Count | None = None
    tokens: Count | None = None
    """Input and output, of the agent and of the feedback agent, as they report them."""
    usd: AboveZero | None = None
    """Likewise."""
    hours: AboveZero | None = None
    """Of recording and training."""


@dataclass(frozen=True, kw_only=True)
class ImproveSettings(TrialSettings):
    """A harness and, with a recipe, a model's weights are changed; `dev` decides, `test` is only reported."""

    id: str = ""
    """In the tags of its runs: a folder can be moved, or made again at the same place."""
    recipe: str = ""
    """Empty: the model stays as it is."""
    train: Some
    confirm: Some
    """The half of dev that no change is chosen on."""
    test: list[str] = field(default_factory=list)
    agent: str = "chat"
    """It attempts the tasks. With a recipe it is `chat`, with the model that is trained."""
    model: str | None = None
    base_url: str | None = None
    agent_options: list[str] = field(default_factory=list)
    """KEY=VALUE."""
    record_options: list[str] = field(default_factory=list)
    """Other arguments of `mcp-bench record`."""
    policy: str = "agent"
    feedback_agent: str | None = None
    """It reads the recordings and proposes changes."""
    feedback_model: str | None = None
    feedback_base_url: str | None = None
    feedback_options: list[str] = field(default_factory=list)
    feedback_timeout: AboveZero = 1800.0
    """Seconds for its session."""
    candidates: Annotated[int, Bounds(ge=0)] = 0
    """Number of the operator's own harnesses, tried in place of proposals of an agent."""
    generations: Count
    patience: Count
    """It ends after this many generations in a row without promotion."""
    repeats: Count = 2
    """Attempts at each task of `dev` and `test`; twice as many where the first ones leave it unclear."""
    min_partial: Share = 0.5
    """Of episodes to train on, where the policy chose training."""
    best: Count = 2
    seed: int = 0
    reveal: bool = False
    """Whether the feedback agent sees the assertions of training tasks."""
    budget: Budget = Budget()

    rl_steps: Annotated[int, Bounds(ge=0)] = 0
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
