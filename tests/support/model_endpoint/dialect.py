"""A dialect: the form of requests, answers and errors of one model API.

Each dialect has a module that defines a `Dialect`; `dialects.py` lists them.
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
    """One server-sent event; `name` if the dialect names them. Text is sent unchanged."""

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
    """The path of requests for a turn. Its `{parameters}` are added to the body."""
    parse: Callable[[JSONObject], Conversation]
    """Parses a request's body; can raise KeyError, TypeError or ValueError."""
    answer: Callable[[Turn], JSONObject]
    """Returns the body of an answer in one piece."""
    events: Callable[[Turn], Iterator[Event]]
    """Returns the same answer as a stream."""
    error: Callable[[int, str, str | None], JSONObject]
    """Returns the body of an error: status, message, and the API's own code, if any."""
    side_paths: tuple[tuple[str, Callable[[JSONObject], JSONObject]], ...] = ()
    """Other paths that agents post to, each with the function that answers it."""
