"""Checkpoints of a training run. Only completely written ones count."""

from __future__ import annotations

import os
from pathlib import Path

COMPLETE = "whole"
"""The file that is written last. A checkpoint without it is incomplete: the run was killed while saving."""


def mark_complete(checkpoint: Path) -> None:
    """Mark a checkpoint as complete, after syncing its files (including those in subfolders) to disk."""
    for path in filter(Path.is_file, checkpoint.rglob("*")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    (checkpoint / COMPLETE).touch()


def last_complete(folder: Path) -> Path | None:
    """Return the newest complete checkpoint, or None."""
    found = {number(path): path for path in folder.glob("checkpoint-*") if (path / COMPLETE).is_file()}
    return found[max(found)] if found else None


def number(checkpoint: Path) -> int:
    """Return the number of the step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])
