"""Line ends of text files."""

from __future__ import annotations


def in_ends_of(text: str, new: str) -> str:
    """Return new lines with the line end of the first line of a text."""
    first = text.partition("\n")[0]
    return new.replace("\n", "\r\n") if first.endswith("\r") else new
