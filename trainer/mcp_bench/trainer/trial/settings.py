"""Settings that all trials of a model have.

Commands import this module when they start, so pydantic is imported only where settings are checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from mcp_bench.recorder.option_fields import Bounds, Count, option
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.serving_defaults import ENGINE_HELP

Some = Annotated[list[str], Bounds(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class TrialSettings:
    """Settings for training and measuring models. Tasks are given by id.

    Raises:
        WrongUseError: two do not go together.
    """

    __pydantic_config__: ClassVar[Any] = {"extra": "forbid", "allow_inf_nan": False}

    recipe: str
    """Name or path as given. The recipe stored beside these settings includes the overrides."""
    benchmark: str
    dev: Some
    """Tasks that models are measured on."""
    max_tokens: Count | None = option(None, "Maximum tokens per answer.", metavar="N")
    constrain_calls: bool = option(False, "Hold the models' tool calls to the tools' schemas.")
    """While models are measured, and in attempts."""
    base_steps: Count | None = option(
        None,
        "Training steps of the base model that is made if the recipe has none (default: the full schedule).",
        metavar="N",
    )
    reasoning: Literal["keep", "drop"] = option(
        "drop", "Whether training rows keep the agents' reasoning. Keep it for models that reason."
    )
    jobs: Count = option(2, "Parallel episodes.")
    engine: Literal["auto", "vllm", "torch"] = option("auto", ENGINE_HELP)

    def __post_init__(self) -> None:
        if self.constrain_calls and self.engine == "vllm":
            raise WrongUseError("--constrain-calls needs --engine torch")
