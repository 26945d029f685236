"""Contract double: a world with three apps."""

import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", validate_assignment=True)


class Meta(Strict):
    allowed_services: list[str] | None = None
    current_time: datetime.datetime = Field(default_factory=lambda: datetime.datetime.now(datetime.UTC))
    no_same_sender_noise: bool = False


class Gmail(Strict):
    sent: list[dict[str, Any]] = []


class Rows(Strict):
    rows: list[dict[str, Any]] = []
    _deleted: list[str] = PrivateAttr(default_factory=list)
    """Graded, and in no dump."""


class WorldState(Strict):
    meta: Meta = Field(default_factory=Meta)
    gmail: Gmail = Field(default_factory=Gmail)
    google: Rows = Field(default_factory=Rows)
    google_sheets: Rows = Field(default_factory=Rows)
