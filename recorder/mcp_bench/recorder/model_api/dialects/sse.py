"""Parse a stored stream of server-sent events (WHATWG HTML, section 9.2.6)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

_LINE_END = re.compile(r"\r\n|\n|\r")


def json_events(stream: str) -> Iterator[dict[str, Any]]:
    """Yield the data of every event that is a JSON object, including an unterminated last event."""
    data: list[str] = []
    for line in (*_LINE_END.split(stream.removeprefix("\ufeff")), ""):
        if line.startswith("data:"):
            data.append(line.removeprefix("data:").removeprefix(" "))
        elif not line and data:
            try:
                event = json.loads("\n".join(data))
            except (ValueError, RecursionError):  # such as [DONE]
                event = None
            if isinstance(event, dict):
                yield event
            data = []
