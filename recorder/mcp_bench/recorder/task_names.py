"""What the id of a task says: saasworld's are `family.level.split.number`."""

from __future__ import annotations


def family(task: str, otherwise: str) -> str:
    """Return what a task is a variant of: its id up to the first dot, or, where it has none, `otherwise`."""
    name, dot, _ = task.partition(".")
    return name if dot else otherwise


def level(task: str) -> int | None:
    """Return a task's level, if its id has one."""
    parts = task.split(".")
    return int(parts[1]) if len(parts) == 4 and parts[1].isdecimal() else None
