"""What the id of a task says: saasworld's are `family.level.split.number`."""

from __future__ import annotations


def family(task: str, otherwise: str) -> str:
    """Return what a task is a variant of: its id up to the first dot, or, where it has none, `otherwise`."""
    name, dot, _ = task.partition(".")
    return name if dot else otherwise


def level(task: str) -> int | None:
    """Return a task's level, if its id has one."""
    match task.split("."):
        case [_, level, _, number] if level.isdecimal() and number.isdecimal():
            return int(level)
    return None
