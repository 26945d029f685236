"""Values in an agent's calls that it cannot have read anywhere in its episode.

An agent that carries the solutions of a benchmark can name an identifier before any result contained it. An
honest agent reads identifiers first. Only values that nobody makes up are looked at: identifiers and
addresses. Free text, numbers, dates and plain words are often an agent's own, so they are left out. An agent
that plays a whole solution, with the calls that read, is not seen by this.

This is no evidence of taint: a wrong guess and a made-up address look the same. It means nothing for the
oracle.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from mcp_bench.recorder.records import RecordedCall
from mcp_bench.recorder.trajectory import ToolSchema

_WORD = re.compile(r"[^\W_]+")
_BETWEEN = re.compile(r"[/?&=,;]+")
_ADDRESS = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_IDENTIFIER = re.compile(r"(?=\S*[0-9])(?=\S*[A-Za-z])[\w.:#-]{6,64}")
_TIME = re.compile(
    r"\d{4}-(\d\d(-\d\d(T[\d:.]+(Z|[+-][\d:]+)?)?)?|W\d\d|Q\d)|Q\d-\d{4}|\d+(:\d\d){1,2}([ap]m)?"
)


@dataclass(frozen=True, slots=True)
class Unseen:
    """A value of the call with this number (1, 2, ... in the order of the recording)."""

    call: int
    tool: str
    value: str


def unseen_values(prompt: str, tools: Sequence[ToolSchema], calls: Iterable[RecordedCall]) -> list[Unseen]:
    """Return the identifiers and addresses in calls that no prompt, tool schema or earlier result contained.

    A value whose words all occurred is no finding: an address can follow from a name and a company. Each
    value is returned once, for the first call that has it. Case does not count.
    """
    seen = _Texts()
    seen.add(prompt)
    for tool in tools:
        seen.add(json.dumps(tool.model_dump(), ensure_ascii=False))
    found: list[Unseen] = []
    for number, call in enumerate(calls, start=1):
        values = (part for text in _strings(call.arguments) for part in _parts(text))
        for value in values:
            if specific(value) and not seen.explains(value):
                found.append(Unseen(number, call.tool, value))
                seen.add(value)
        seen.add(call.text)
    return found


def specific(value: str) -> bool:
    """Return whether a value is an identifier or an address, and no time."""
    if _TIME.fullmatch(value):
        return False
    return bool(_ADDRESS.fullmatch(value) or _IDENTIFIER.fullmatch(value))


class _Texts:
    def __init__(self) -> None:
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        self._texts.append(text.casefold())

    def explains(self, value: str) -> bool:
        """Return whether the texts contain the value, or all its words: `ann.ode@shop.example` follows."""
        wanted = value.casefold()
        return self._contain(wanted) or all(map(self._contain, _WORD.findall(wanted)))

    def _contain(self, wanted: str) -> bool:
        return any(wanted in text for text in self._texts)


def _parts(text: str) -> list[str]:
    """Return a text without spaces in the parts of a path or query, such as `con_81f3` of `/v1/con_81f3`."""
    return [] if re.search(r"\s", text) else [part for part in _BETWEEN.split(text) if part]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
