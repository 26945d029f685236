"""Parse task ids. Those of saasworld are `family.level.split.number`."""

from __future__ import annotations


def family(task: str, otherwise: str) -> str:
    """Return the family of a task: its id up to the first dot, or `otherwise` if it has no dot."""
    name, dot, _ = task.partition(".")
    return name if dot else otherwise


def level(task: str) -> int | None:
    """Return the level in a task id, or None if it has none."""
    match task.split("."):
        case [_, level, _, number] if level.isdecimal() and number.isdecimal():
            return int(level)
    return None
