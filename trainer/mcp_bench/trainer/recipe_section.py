"""The base of a recipe's sections."""

from __future__ import annotations

from typing import Annotated

from pydantic import AllowInfNan, BaseModel, ConfigDict, NonNegativeFloat, PositiveFloat


class Section(BaseModel):
    """A part of a recipe. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True)


Finite = Annotated[PositiveFloat, AllowInfNan(False)]
"""A number above 0. Where YAML's `.inf` turns a limit off, it is allowed."""
FiniteOrZero = Annotated[NonNegativeFloat, AllowInfNan(False)]
"""The same, or 0, which turns off what the number weighs."""
