"""A turn as the loop's folder has it, finished or not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.trainer.loop.folder import LoopFolder, Outcome
from mcp_bench.trainer.loop.scores import SPLITS


@dataclass(frozen=True)
class Turn:
    """What came of the steps; None of one that is not done. Turn 0 is the base."""

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
        """By split; empty before the model was measured."""
        return {split: found for split, found in (self.measure or {}).items() if split in SPLITS}

    @property
    def changes(self) -> dict[str, Any]:
        """What changed from the promoted model to this one, by split."""
        return self.flips or {}

    @property
    def promoted(self) -> bool:
        return not self.number or bool(self.gate and self.gate["promoted"])

    @property
    def verdict(self) -> str:
        """Whether it was promoted, and why."""
        if not self.number:
            return "the start"
        if not self.gate:
            return "not decided yet"
        return f"{'yes' if self.promoted else 'no'}: {self.gate['why']}"

    def against(self, turns: Sequence[Turn]) -> str:
        """Return the name of the turn whose model this one is compared with."""
        return [turn.name for turn in turns if turn.number < self.number and turn.promoted][-1]


def stored_turns(loop: LoopFolder, most: int) -> list[Turn]:
    """Return the base and the turns that were begun."""
    steps = ("attempt", "curate", "train", "measure", "flips", "gate")
    numbers = [number for number in range(most + 1) if (loop.path / f"turn-{number}").is_dir()]
    return [
        Turn(number, loop.path / f"turn-{number}", *(loop.done(number, step) for step in steps))
        for number in numbers
    ]
