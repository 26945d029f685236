"""Settings that all trials of a model have."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator


class TrialSettings(BaseModel):
    """Settings for training and measuring models. Tasks are given by id."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recipe: str
    """Name or path as given. The recipe stored beside these settings includes the overrides."""
    benchmark: str
    dev: list[str] = Field(min_length=1)
    """Tasks that models are measured on."""
    max_tokens: PositiveInt | None = None
    """Maximum tokens per answer."""
    reasoning: Literal["keep", "drop"] = "drop"
    """Whether training rows keep the agents' reasoning."""
    jobs: PositiveInt = 1
    engine: Literal["auto", "vllm", "torch"] = "auto"
    constrain_calls: bool = False
    """Whether the engine holds calls to the tools' schemas: while models are measured, and in attempts."""
    base_steps: PositiveInt | None = None
    """Training steps of the base model made if the recipe has none. None: the full schedule."""

    @model_validator(mode="after")
    def _grammars_need_our_engine(self) -> Self:
        if self.constrain_calls and self.engine == "vllm":
            raise ValueError("--constrain-calls needs --engine torch")
        return self
