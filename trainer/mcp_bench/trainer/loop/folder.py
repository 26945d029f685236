"""A loop on disk. A step that is done has a file with what came of it, written last: a stopped loop goes on
with the first step that has none.

    loop.json            what was asked for
    recipe.yaml          the recipe as it was
    turn-0/              the base model, measured
    turn-1/curate.json   a step of a turn, with its lineage: runs, manifest, checkpoint, scores
    turn-1/train/        the training run of a turn (see trainer.sft.run_folder)
    history.json         all scores, and the best model: of a loop that has ended
"""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.paths import home
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.loop.settings import LoopSettings

Outcome = dict[str, Any]


def new_folder(asked: Path | None, kind: str) -> Path:
    """Make a folder that was asked for, or one of its kind in the home of the recordings.

    Raises:
        WrongUseError: there is something in it.
    """
    path = (asked or home() / kind / f"{datetime.now(UTC):%Y%m%d-%H%M%S}").absolute()
    if path.is_dir() and any(path.iterdir()):
        raise WrongUseError(
            f"{path} is not empty; go on with what is there by --resume, or name another folder"
        )
    path.mkdir(parents=True, exist_ok=True)
    return path


class LoopFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "loop.json"
        self.recipe = path / "recipe.yaml"

    def make(self, settings: LoopSettings) -> None:
        """Begin a loop."""
        write_atomic(self.settings, settings.model_dump_json(indent=1) + "\n")

    def read(self) -> LoopSettings:
        """Return the settings of a loop that was begun.

        Raises:
            WrongUseError: there is none.
        """
        if not self.settings.is_file():
            raise WrongUseError(f"no loop in {self.path}: it has no loop.json")
        return LoopSettings.model_validate_json(self.settings.read_text(encoding="utf-8"))

    def end(self, history: Outcome) -> None:
        """Store what came of the loop."""
        write_atomic(self.path / "history.json", json.dumps(history, indent=1) + "\n")

    def history(self) -> Outcome:
        """Return what came of a loop.

        Raises:
            WrongUseError: it has not ended, or there is none.
        """
        self.read()
        found = read_step(self.path / "history.json")
        if found is None:
            raise WrongUseError(f"the loop in {self.path} has not ended: mcp-bench loop --resume {self.path}")
        return found

    def turn(self, number: int) -> Path:
        folder = self.path / f"turn-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def step(self, turn: int, name: str, work: Callable[[], Outcome]) -> Outcome:
        """Return what came of a step, from its file where it is done."""
        return once(self.turn(turn) / f"{name}.json", work)

    def done(self, turn: int, name: str) -> Outcome | None:
        """Return what came of a step, if it is done."""
        return read_step(self.path / f"turn-{turn}" / f"{name}.json")


def once(path: Path, work: Callable[[], Outcome]) -> Outcome:
    """Return what came of a step, from its file where it is done."""
    found = read_step(path)
    if found is None:
        found = work()
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomic(path, json.dumps(found, indent=1) + "\n")
    return found


def read_step(path: Path) -> Outcome | None:
    """Return the content of a step's file; None where there is none."""
    if not path.is_file():
        return None
    content: Outcome = json.loads(path.read_text(encoding="utf-8"))
    return content
