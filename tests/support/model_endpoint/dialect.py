"""What a dialect is: how one model API writes requests, answers and errors.

Each has a module of its own that defines a `Dialect`; `dialects.py` lists them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from .script import Conversation, Turn

JSONObject = dict[str, Any]


@dataclass(frozen=True)
class Event:
    """One server-sent event; `name` where the dialect names them. Text is sent as it is."""

    data: JSONObject | str
    name: str | None = None

    def encode(self) -> bytes:
        data = self.data if isinstance(self.data, str) else json.dumps(self.data)
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {data}\n\n".encode()


@dataclass(frozen=True)
class Dialect:
    """One model API."""

    name: str
    path: str
    """Where requests for a turn are posted. Its `{parameters}` are read as if they were in the body."""
    parse: Callable[[JSONObject], Conversation]
    """Read a request's body; may raise KeyError, TypeError or ValueError on one it cannot read."""
    answer: Callable[[Turn], JSONObject]
    """The body of an answer in one piece."""
    events: Callable[[Turn], Iterator[Event]]
    """The same answer as a stream."""
    error: Callable[[int, str, str | None], JSONObject]
    """The body of an error: status, message, and the API's own code for it where there is one."""
    side_paths: tuple[tuple[str, Callable[[JSONObject], JSONObject]], ...] = ()
    """Other paths that agents post to, each with the function that answers."""
