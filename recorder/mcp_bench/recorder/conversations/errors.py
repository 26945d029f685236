"""Errors of tools in a conversation: what they have in common, and which of them an agent made again."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any

from mcp_bench.recorder.trajectory import Message

MOST = 160
"""Characters of an error's general text."""
READ = 4000
"""Characters of an error that are read: looking for an address takes the square of the length of a word."""
PARTS = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"|\S*@\S*|\b\w*\d[\w.-]*\b")
"""What differs from one call to the next: quoted values, addresses, numbers, ids."""


def general(text: str, keep: Collection[str] = ()) -> str:
    """Return an error's text without what belongs to a single call, in one line.

    Args:
        text: the error.
        keep: quoted names that stay, such as those of tools and of their arguments.
    """

    def replaced(found: re.Match[str]) -> str:
        return found[0] if found[0].strip("'\"") in keep else "…"

    def words(text: str) -> str:
        return PARTS.sub(replaced, " ".join(text[:READ].split()))

    def inside(value: Any) -> Any:
        if isinstance(value, dict):
            return {words(key[:MOST]): inside(one) for key, one in value.items()}
        if isinstance(value, list):
            return [inside(one) for one in value]
        return words(value[:MOST] if isinstance(value, str) else json.dumps(value))

    if text.lstrip().startswith(("{", "[")):  # JSON has quotes around everything
        with suppress(ValueError, RecursionError):
            return json.dumps(inside(json.loads(text)), ensure_ascii=False)[:MOST]
    return words(text)[:MOST]


def repeated_errors(messages: Sequence[Message]) -> set[str]:
    """Return the ids of the calls that failed as an earlier call of the same tool had failed."""
    seen: set[tuple[str | None, str]] = set()
    found: set[str] = set()
    for message in messages:
        if message.role == "tool" and message.is_error:
            key = (message.name, general(message.content or ""))
            if key in seen and message.tool_call_id:
                found.add(message.tool_call_id)
            seen.add(key)
    return found
