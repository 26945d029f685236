"""Contract double: a world with three apps."""

import datetime
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Meta(Strict):
    allowed_services: set[str] | None = None
    current_time: str = Field(default_factory=lambda: datetime.datetime.now(datetime.UTC).isoformat())


class Gmail(Strict):
    sent: list[dict[str, Any]] = []


class Rows(Strict):
    rows: list[dict[str, Any]] = []
    _deleted: list[str] = PrivateAttr(default_factory=list)
    """Graded, and in no dump."""


class WorldState(Strict):
    meta: Meta = Meta()
    gmail: Gmail = Gmail()
    google: Rows = Rows()
    google_sheets: Rows = Rows()

    def model_post_init(self, context: Any) -> None:
        self.meta = Meta(**self.meta.model_dump(exclude_unset=True))
        self.gmail, self.google = self.gmail.model_copy(deep=True), self.google.model_copy(deep=True)
        self.google_sheets = self.google_sheets.model_copy(deep=True)
