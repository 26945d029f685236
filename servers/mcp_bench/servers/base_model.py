"""The base class of every value that crosses the benchmark contract."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Base of all contract values: immutable; unknown fields are rejected."""

    model_config = ConfigDict(frozen=True, extra="forbid")
