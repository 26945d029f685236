"""Faults that a test requests from the endpoint."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field


class Gate:
    """Holds requests: `arrived` is set when one waits, and `release` lets all continue."""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.release = threading.Event()


@dataclass(frozen=True)
class Fault:
    """What goes wrong with requests `after` to `after + first` (None: all later ones) that have `where` in them.

    - `status`: answer with this HTTP status instead;
    - `text`: answer with this text and status 200;
    - `cut`: break the connection after this many events (in the middle of a body in one piece);
    - `gate`: wait until the test releases it, then answer as usual.
    """

    status: int | None = None
    message: str = "The test asked for this error."
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    text: str | None = None
    cut: int | None = None
    gate: Gate | None = None
    first: int | None = None
    after: int = 0
    where: bytes = b""

    def strikes(self, request: int, body: bytes) -> bool:
        """Return whether it applies to the request with this number, counted from 0, and this body."""
        start, count = self.after, self.first
        return request >= start and (count is None or request < start + count) and self.where in body

    @property
    def spoils_the_answer(self) -> bool:
        """Return whether the agent gets no complete answer, and so no usage."""
        return any(part is not None for part in (self.status, self.text, self.cut))
