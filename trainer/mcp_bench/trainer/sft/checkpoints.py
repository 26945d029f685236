"""Checkpoints of a training run: only what was written to its end counts."""

from __future__ import annotations

import os
from pathlib import Path

WHOLE = "whole"
"""The file that is written last. A run that was killed while it saved leaves a folder without one."""


def mark_whole(checkpoint: Path) -> None:
    """Say that a checkpoint has been written to its end; its files are on the disk first.

    A sharded one has folders in it.
    """
    for path in filter(Path.is_file, checkpoint.rglob("*")):
        with path.open("rb") as file:
            os.fsync(file.fileno())
    (checkpoint / WHOLE).touch()


def last_whole(folder: Path) -> Path | None:
    """Return the newest whole checkpoint; None where there is none."""
    found = {number(path): path for path in folder.glob("checkpoint-*") if (path / WHOLE).is_file()}
    return found[max(found)] if found else None


def number(checkpoint: Path) -> int:
    """Return the step after which a checkpoint was written."""
    return int(checkpoint.name.rpartition("-")[2])
