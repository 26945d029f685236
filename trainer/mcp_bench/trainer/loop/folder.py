"""The files of a loop. Each finished step has a result file, written last. A resumed loop continues with the
first step without one.

    loop.json            settings
    recipe.yaml          the recipe
    turn-0/              the base model and its scores
    turn-1/curate.json   result of a step, with its lineage: runs, manifest, checkpoint, scores
    turn-1/train/        the training run of a turn (see trainer.sft.run_folder)
    history.json         all scores and the best model, written when the loop ends
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from shlex import quote

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.folders import Outcome, once, read_step, store_settings, stored_settings
from mcp_bench.trainer.loop.settings import LoopSettings


class LoopFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "loop.json"
        self.recipe = path / "recipe.yaml"

    def make(self, settings: LoopSettings) -> None:
        """Store the settings of a new loop."""
        store_settings(self.settings, settings)

    def read(self) -> LoopSettings:
        """Return the settings of the loop.

        Raises:
            WrongUseError: the folder has no loop, or its settings cannot be read.
        """
        return stored_settings(self.settings, LoopSettings, "loop")

    def end(self, history: Outcome) -> None:
        """Store the history of the finished loop."""
        write_atomic(self.path / "history.json", json.dumps(history, indent=1) + "\n")

    def history(self) -> Outcome:
        """Return the history of a finished loop.

        Raises:
            WrongUseError: the loop has not finished, or the folder has none.
        """
        self.read()
        found = read_step(self.path / "history.json")
        if found is None:
            raise WrongUseError(
                f"the loop in {self.path} has not finished. Resume with: mcp-bench loop --resume "
                f"{quote(str(self.path))}"
            )
        return found

    def turn(self, number: int) -> Path:
        folder = self.path / f"turn-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def step(self, turn: int, name: str, work: Callable[[], Outcome]) -> Outcome:
        """Return the stored result of a step, or do the work and store its result."""
        return once(self.turn(turn) / f"{name}.json", work)

    def done(self, turn: int, name: str) -> Outcome | None:
        """Return the result of a step, or None if it is not finished."""
        return read_step(self.path / f"turn-{turn}" / f"{name}.json")
