"""Tips by a rule: errors of tools that several attempts made, and the calls that repaired them.

No model is needed, and the same recordings give the same tips. A tip names tools and arguments only: values
belong to single tasks, and a tip that holds for one task is none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any

from mcp_bench.bridge.memory.attempts import Attempt, Called
from mcp_bench.recorder.conversations.errors import general
from mcp_bench.servers.terminal.sanitize import sanitize_line

NO_REPAIR = ""
"""The same error came again whenever the tool was called: nothing helped."""
NO_WORDS = "something else"
"""A later call worked, and no rule has words for what it did otherwise."""
JSON_TYPES: Mapping[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    str: "a string",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


@dataclass(frozen=True)
class Tip:
    """A lesson, and the episodes that it rests on."""

    name: str
    text: str
    episodes: tuple[str, ...]
    tasks: int
    source: str
    """`rule`, or the name of a model."""


@dataclass
class _Seen:
    episodes: list[str] = field(default_factory=list)
    tasks: set[str] = field(default_factory=set)

    def add(self, attempt: Attempt) -> None:
        self.tasks.add(attempt.task)
        if attempt.episode.id not in self.episodes:
            self.episodes.append(attempt.episode.id)


def tips_by_rule(attempts: Sequence[Attempt], *, least: int = 2, most: int = 10) -> list[Tip]:
    """Return the tips that rest on most tasks.

    Args:
        attempts: what was tried.
        least: tasks in which the same error was made.
        most: how many tips.
    """
    found: dict[tuple[str, str], dict[str, _Seen]] = {}
    for attempt in attempts:
        names = _names(attempt)

        def answered(call: Called, names: Set[str] = names) -> str:
            return sanitize_line(general(call.result, names))

        for failed, repair in _repairs(attempt.calls, answered):
            found.setdefault((failed.tool, answered(failed)), {}).setdefault(repair, _Seen()).add(attempt)
    tips = []
    for (tool, error), repairs in found.items():
        known = repairs.keys() - {NO_REPAIR, NO_WORDS}
        if not known and NO_WORDS in repairs:
            continue  # something helped
        repair = min(known, key=lambda one: (-len(repairs[one].tasks), one), default=NO_REPAIR)
        seen = repairs[repair]
        if len(seen.tasks) >= least:
            text = (
                f"`{tool}`: {repair}. Otherwise it answers: {error}"
                if repair
                else f"`{tool}`: do not repeat a call that answers as follows; that never helped: {error}"
            )
            name = _file_name(tool, error)
            tips.append(Tip(name, text, tuple(seen.episodes), len(seen.tasks), "rule"))
    return sorted(tips, key=lambda tip: (-tip.tasks, tip.name))[:most]


def _names(attempt: Attempt) -> set[str]:
    """Return the names of an attempt's tools and of all their arguments."""
    names = set[str]()
    for tool in attempt.conversation.tools:
        properties = tool.function.parameters.get("properties")
        names |= {tool.function.name, *(properties if isinstance(properties, dict) else ())}
    return names


def _repairs(calls: Sequence[Called], answered: Callable[[Called], str]) -> Iterator[tuple[Called, str]]:
    """Yield each failed call with what repaired it, `NO_REPAIR` or `NO_WORDS`.

    A call that fails in another way afterwards says nothing: the first error may be mended.
    """
    for number, failed in enumerate(calls):
        if not failed.failed:
            continue
        later = [one for one in calls[number + 1 :] if one.tool == failed.tool]
        repaired = next((one for one in later if not one.failed), None)
        if repaired is not None:
            between = calls[number + 1 : calls.index(repaired)]
            repair = _difference(failed, repaired, [one for one in between if not one.failed])
            yield failed, repair or NO_WORDS
        elif later and all(answered(one) == answered(failed) for one in later):
            yield failed, NO_REPAIR


def _difference(failed: Called, repaired: Called, between: Sequence[Called]) -> str:
    """Return what the second call did otherwise; empty if no rule has words for it."""
    before, after = failed.call.function.arguments, repaired.call.function.arguments
    changed = [name for name in before if name in after and before[name] != after[name]]
    parts = [f"pass `{name}`" for name in after if name not in before]
    parts += [f"leave out `{name}`" for name in before if name not in after]
    for name in changed:
        kinds = JSON_TYPES[type(before[name])], JSON_TYPES[type(after[name])]
        source = next((one.tool for one in between if _occurs(after[name], one.result)), None)
        if kinds[0] != kinds[1]:
            parts.append(f"pass `{name}` as {kinds[1]}, not as {kinds[0]}")
        elif source is not None:
            parts.append(f"take `{name}` from the result of `{source}`")
    if not parts and before == after and between:
        parts.append(f"call `{between[-1].tool}` first")
    return ", and ".join(parts)


def _occurs(value: Any, text: str) -> bool:
    return isinstance(value, str) and len(value) > 2 and value in text


def _file_name(tool: str, error: str) -> str:
    slug = "".join(letter if letter.isalnum() else "-" for letter in tool.lower())[:40].strip("-")
    return f"{slug}-{hashlib.sha256(f'{tool} {error}'.encode()).hexdigest()[:6]}"
