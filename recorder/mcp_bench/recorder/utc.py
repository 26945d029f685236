"""Times in texts for people."""

from __future__ import annotations

from datetime import UTC, datetime


def utc(microseconds: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """Return a time, in microseconds since the epoch, as text in UTC."""
    return f"{datetime.fromtimestamp(microseconds / 1e6, tz=UTC):{form}}"
