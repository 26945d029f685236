"""The files of an improvement. Each finished phase has a result file, written last; a resumed improvement
continues with the first phase without one.

    improve.json                 settings
    recipe.yaml                  the recipe, if weights are trained
    generation-0/h0/             the harness at the start, if there is one
    generation-1/proposal.json   result of a phase: proposal, check, train, gate, confirm, decision
    generation-1/h1/             the harness that it proposes
    generation-1/train/          the training run that it proposes (see trainer.sft.run_folder)
    h0-w0/train-0.json           a recording of harness 0 with weights 0; also gate-0, gate-1, ...
    best/                        the last promoted harness
    history.json                 all generations, rewritten after each
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.folders import Outcome, once, read_step, store_settings, stored_settings
from mcp_bench.trainer.improve.settings import ImproveSettings


@dataclass(frozen=True)
class Arm:
    """A harness and weights, each by the generation that made it; 0 is what was there at the start."""

    harness: int = 0
    weights: int = 0

    def __str__(self) -> str:
        return f"h{self.harness}-w{self.weights}"


class ImproveFolder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "improve.json"
        self.recipe = path / "recipe.yaml"

    def store(self, settings: ImproveSettings) -> None:
        store_settings(self.settings, settings)

    def read(self) -> ImproveSettings:
        """Return the settings.

        Raises:
            WrongUseError: the folder has no improvement, or its settings cannot be read.
        """
        return stored_settings(self.settings, ImproveSettings, "improvement")

    def history(self) -> Outcome:
        """Return what is known so far.

        Raises:
            WrongUseError: the folder has no improvement, or no phase of it has ended.
        """
        self.read()
        if not (found := self.known()):
            raise WrongUseError(f"nothing in {self.path} has ended yet")
        return found

    def known(self) -> Outcome:
        """Return the stored history; it is empty before the first generation has ended."""
        return read_step(self.path / "history.json") or {}

    def store_history(self, history: Outcome) -> None:
        write_atomic(self.path / "history.json", json.dumps(history, indent=1) + "\n")

    def generation(self, number: int) -> Path:
        folder = self.path / f"generation-{number}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def phase(self, generation: int, name: str, work: Callable[[], Outcome]) -> Outcome:
        """Return the stored result of a phase, or do the work and store its result."""
        return once(self._phase(generation, name), work)

    def has(self, generation: int, name: str) -> bool:
        """Return whether a phase has ended."""
        return self._phase(generation, name).is_file()

    def _phase(self, generation: int, name: str) -> Path:
        return self.generation(generation) / f"{name}.json"

    def harness(self, number: int) -> Path:
        """Return the folder of a harness; it is missing if there was none at the start."""
        return self.path / f"generation-{number}" / f"h{number}"

    def arm(self, arm: Arm) -> Path:
        folder = self.path / str(arm)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @property
    def tag_of_all(self) -> str:
        """The beginning of the tags of all runs."""
        own = self.read().id if self.settings.is_file() else ""
        return f"improve-{own or sha256(str(self.path).encode()).hexdigest()[:8]}"

    def tag(self, arm: Arm, what: str) -> str:
        """Return the tag of a run, by which it is found again after a kill."""
        return f"{self.tag_of_all}/{arm}/{what}"

    def spent(self, without: Collection[str] = ()) -> tuple[dict[str, float], set[str]]:
        """Return what all finished phases used (episodes, tokens, usd and seconds), and their runs.

        Args:
            without: runs that are left out.
        """
        total: dict[str, float] = dict.fromkeys(("episodes", "tokens", "usd", "seconds"), 0)
        runs = set[str]()
        for path in sorted(self.path.glob("h*-w*/*.json")) + [
            place / name
            for place in self.path.glob("generation-*")
            for name in ("proposal.json", "train.json")
        ]:
            done = read_step(path) or {}
            if (run := done.get("run", "")) in without:
                continue
            runs.add(run)
            for name, used in done.get("spent", {}).items():
                total[name] += used
        return total, runs


def cells(history: dict[str, Any]) -> list[Arm]:
    """Return the arms that are measured on test: first and last harness, each with first and last weights."""
    best = Arm(**history["best"])
    return list(dict.fromkeys(Arm(h, w) for w in (0, best.weights) for h in (0, best.harness)))
