"""The folder of a run that learns from reward.

settings.json    what was asked for
recipe.yaml      the recipe with its overrides
chat_template.jinja  that of the engine, if the model's own has no tools
steps/7/         what the step rolled out: its recordings (*.run.json), record.log, and scores (dev.json)
metrics.jsonl    a line for each step
teacher.json     what the other model earned that is followed, if one is, and the policy, in the first step
stopped.json     why a guard stopped it, if one did
engine/          what a vLLM server reads, if one samples the attempts
checkpoints/     the last two: weights, optimizer, curriculum and guards
model/           the result, ready to serve

The recordings are in the home, like all others.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.trainer.folders import read_step, store_settings, stored_settings
from mcp_bench.trainer.methods import Learning
from mcp_bench.trainer.sft.checkpoints import number
from mcp_bench.trainer.step_lines import append_line, keep_until, read_lines

KEPT = 2
"""Checkpoints that are kept."""


class RunSettings(BaseModel):
    """What a run was asked for, besides its recipe."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    start: str
    """Folder of the model that learning starts from."""
    algorithm: Learning
    teacher: str | None = None
    """Folder of the model that `opd` follows."""
    agent: str = "chat"
    """The agent that the policy works in."""
    record_options: tuple[str, ...] = ()
    """Other arguments of `mcp-bench record`, such as `--agent-option`."""
    benchmark: str
    tasks: tuple[str, ...]
    """Training tasks."""
    canaries: tuple[str, ...] = ()
    """Tasks for which any grade above 0 stops the run."""
    dev: tuple[str, ...] = ()
    """Tasks that the policy is measured on, greedily."""
    dev_every: int = 10
    """Steps between these measurements."""
    steps: int
    jobs: int = 8
    seed: int = 0


class RLFolder:
    """The files of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.settings = path / "settings.json"
        self.recipe = path / "recipe.yaml"
        self.metrics = path / "metrics.jsonl"
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.template = path / "chat_template.jinja"
        self.stopped = path / "stopped.json"
        self.teacher = path / "teacher.json"

    def read(self) -> RunSettings:
        """Return the settings of a run.

        Raises:
            WrongUseError: the folder has no run, or its settings cannot be read.
        """
        return stored_settings(self.settings, RunSettings, "run")

    def summary(self) -> dict[str, Any]:
        """Return what a complete run made."""
        return {"run": str(self.path), "model": str(self.model), "steps": self.read().steps}

    def make(self, settings: RunSettings, recipe: str) -> None:
        """Store what a new run was asked for."""
        self.recipe.write_text(recipe, encoding="utf-8")
        store_settings(self.settings, settings)

    def step(self, number: int) -> Path:
        """Return the folder of a step."""
        folder = self.path / "steps" / str(number)
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def last_checkpoint(self) -> Path | None:
        """Return the newest complete checkpoint."""
        found = self._checkpoints()
        return found[-1] if found else None

    @property
    def last_step(self) -> int:
        """The step of the newest complete checkpoint; 0 without one."""
        found = self.last_checkpoint()
        return number(found) if found else 0

    def _checkpoints(self) -> list[Path]:
        """Return the complete checkpoints, the oldest first."""
        return sorted(self.checkpoints.glob("step-*"), key=number)

    def new_checkpoint(self, step: int) -> Path:
        """Return a folder to fill and pass to `keep`."""
        beside = self.checkpoints / f".new-{step}"
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        return beside

    def keep(self, made: Path, step: int) -> Path:
        """Make a filled folder the newest checkpoint, and remove the oldest."""
        final = self.checkpoints / f"step-{step}"
        shutil.rmtree(final, ignore_errors=True)
        made.rename(final)
        for old in self._checkpoints()[:-KEPT]:
            shutil.rmtree(old)
        return final

    def stop(self, step: int, why: str, *, again: bool) -> None:
        """Store why a guard stopped the run at a step, and whether it is of use to try that again."""
        write_atomic(self.stopped, json.dumps({"step": step, "why": why, "again": again}, indent=1) + "\n")

    @property
    def fruitless(self) -> bool:
        """Whether a guard stopped the run, and trying again is no use."""
        found = read_step(self.stopped)
        return found is not None and not found.get("again", False)

    def add(self, line: dict[str, Any]) -> None:
        """Add a step to the metrics."""
        append_line(self.metrics, line)

    def lines(self) -> list[dict[str, Any]]:
        """Return the metrics. An incomplete last line is left out."""
        return list(read_lines(self.metrics))

    def keep_steps(self, last: int) -> None:
        """Forget what came after a step. A recording of the next one goes on: its policy is the same.

        If a guard stopped the run, the recording attempts its invalid episodes again.
        """
        keep_until(self.metrics, last)
        for path in (self.path / "steps").glob("*"):
            if int(path.name) > last + 1:
                shutil.rmtree(path)
        for measured in ("dev.json", "dev.begun"):  # of a policy that is made again
            (self.path / "steps" / str(last + 1) / measured).unlink(missing_ok=True)
        if self.stopped.is_file():
            for done in self.step(last + 1).glob("*.run.json"):
                done.unlink()
            if last == 0:  # it rests on these recordings
                self.teacher.unlink(missing_ok=True)
