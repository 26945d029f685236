"""Settings of an improvement. They are stored at the start and used again on resume."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from mcp_bench.recorder.option_fields import AboveZero, Bounds, Count, Share, option
from mcp_bench.trainer.trial.settings import Some, TrialSettings

if TYPE_CHECKING:
    from mcp_bench.trainer.improve.policy import Kind


@dataclass(frozen=True)
class Budget:
    """What an improvement may use in all; None is no limit. No recording starts that would exceed it."""

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "allow_inf_nan": False}

    episodes: Count | None = option(
        None,
        "Most episodes, of all recordings together; retried ones count.",
        name="budget_episodes",
        metavar="N",
    )
    tokens: Count | None = option(
        None, "Most tokens, as the agents report them.", name="budget_tokens", metavar="N"
    )
    """Input and output, of the agent and of the feedback agent."""
    usd: AboveZero | None = option(
        None, "Most US dollars, for agents that report cost.", name="budget_usd", metavar="USD"
    )
    hours: AboveZero | None = option(
        None, "Most hours of recording and training, without pauses.", name="budget_hours", metavar="H"
    )


@dataclass(frozen=True, kw_only=True)
class ImproveSettings(TrialSettings):
    """A harness and, with a recipe, a model's weights are changed; `dev` decides, `test` is only reported."""

    id: str = ""
    """In the tags of its runs: a folder can be moved, or made again at the same place."""
    recipe: str = option("", "Train weights, too, by this recipe. The agent is chat.", metavar="R")
    """Empty: the model stays as it is."""
    train: Some
    confirm: Some
    """The half of dev that no change is chosen on."""
    test: list[str] = field(default_factory=list)
    agent: str = option("chat", "Agent that is made better.", metavar="A")
    """It attempts the tasks. With a recipe it is `chat`, with the model that is trained."""
    model: str | None = option(None, "Its model.", metavar="M")
    base_url: str | None = option(None, "Its model endpoint.", metavar="URL")
    agent_options: list[str] = option(
        list, "Its option (repeatable).", name="agent_option", metavar="KEY=VALUE"
    )
    record_options: list[str] = field(default_factory=list)
    """Other arguments of `mcp-bench record`."""
    policy: str = option(
        "agent",
        "Who chooses what to try. agent: the feedback agent. rule: the harness until two generations in a "
        "row bring less than a standard error, then training. fixed:harness,train,...: these. random: "
        "either.",
        metavar="P",
    )
    feedback_agent: str | None = option(
        None, "Agent that reads the recordings and proposes changes.", metavar="A"
    )
    feedback_model: str | None = option(None, "Its model.", metavar="M")
    feedback_base_url: str | None = option(None, "Its model endpoint.", metavar="URL")
    feedback_options: list[str] = option(
        list, "Its option (repeatable).", name="feedback_option", metavar="KEY=VALUE"
    )
    feedback_timeout: AboveZero = option(
        1800.0, "Time limit for its session in each generation.", metavar="SECONDS"
    )
    candidates: Annotated[int, Bounds(ge=0)] = 0
    """Number of the operator's own harnesses, tried in place of proposals of an agent."""
    generations: Count = field(
        metadata={"help": "Most generations. Default: 5, or the candidates.", "metavar": "N"}
    )
    patience: Count = field(
        metadata={
            "help": "Stop after so many without promotion. Default: 3, or the candidates.",
            "metavar": "N",
        }
    )
    repeats: Count = option(
        2,
        "Attempts at each task of dev and test; twice as many where these leave it unclear.",
        name="repeat",
        metavar="K",
    )
    min_partial: Share = option(
        0.5, "Train on episodes with at least this partial score, where the policy chooses training."
    )
    best: Count = 2
    seed: int = option(0, "Seed of the worlds, and of --policy random.")
    reveal: bool = option(False, "Show it also which assertions of training tasks held.")
    budget: Budget = Budget()
    rl_steps: Annotated[int, Bounds(ge=0)] = option(
        0,
        "Try learning from reward, too, with so many steps (see `mcp-bench train rl`).",
        metavar="N",
    )
    max_tokens: Count | None = option(None, "Maximum tokens per answer of that model.", metavar="N")
    constrain_calls: bool = option(False, "Hold its tool calls to the tools' schemas.")
    base_steps: Count | None = None
    """No option: a recipe of an improvement names the model at the start."""
    reasoning: Literal["keep", "drop"] = option("drop", "Whether training rows keep the agent's reasoning.")
    jobs: Count = option(2, "Parallel episodes.", metavar="J")

    @property
    def trainable(self) -> bool:
        return bool(self.recipe)

    @property
    def kinds(self) -> list[Kind]:
        """What can be tried."""
        found: list[Kind] = ["harness"]
        found += ["train"] if self.recipe else []
        return [*found, "rl"] if self.recipe and self.rl_steps else found
