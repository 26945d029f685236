"""Read a turn, finished or not, from a loop's folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.trainer.folders import Outcome
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.trial.scores import MEASURED


@dataclass(frozen=True)
class Turn:
    """Results of the steps of a turn; None for unfinished steps. Turn 0 is the base."""

    number: int
    folder: Path
    attempt: Outcome | None
    curate: Outcome | None
    train: Outcome | None
    measure: Outcome | None
    flips: Outcome | None
    gate: Outcome | None

    @property
    def name(self) -> str:
        return f"turn {self.number}" if self.number else "base"

    @property
    def scores(self) -> dict[str, Any]:
        """Scores by split; empty before the model was measured."""
        return {split: found for split, found in (self.measure or {}).items() if split in MEASURED}

    @property
    def changes(self) -> dict[str, Any]:
        """Changes from the promoted model to this one, by split."""
        return self.flips or {}

    @property
    def promoted(self) -> bool:
        return not self.number or bool(self.gate and self.gate["promoted"])

    @property
    def verdict(self) -> str:
        """Text that says whether the model was promoted, and why."""
        if not self.number:
            return "base"
        if not self.gate:
            return "not decided yet"
        return f"{'yes' if self.promoted else 'no'}: {self.gate['why']}"

    def against(self, turns: Sequence[Turn]) -> str:
        """Return the name of the turn whose model this one was compared with."""
        return [turn.name for turn in turns if turn.number < self.number and turn.promoted][-1]


def stored_turns(loop: LoopFolder, most: int) -> list[Turn]:
    """Return the base and the turns that have started."""
    steps = ("attempt", "curate", "train", "measure", "flips", "gate")
    numbers = [number for number in range(most + 1) if (loop.path / f"turn-{number}").is_dir()]
    return [
        Turn(number, loop.path / f"turn-{number}", *(loop.done(number, step) for step in steps))
        for number in numbers
    ]
