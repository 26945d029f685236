"""The steps of a turn. Each returns its result, which is stored and records the lineage."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.folders import Outcome
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.loop.gate import too_many_invalid
from mcp_bench.trainer.loop.settings import LoopSettings
from mcp_bench.trainer.loop.training import NothingTrainedError, learn_online, make_base, train_model
from mcp_bench.trainer.trial.commands import FruitlessStepError, export
from mcp_bench.trainer.trial.measuring import Endpoint, model_name, served, tasks
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.scores import MEASURED, flips, scores, scores_by_group


def teacher_arguments(settings: LoopSettings) -> list[str]:
    """Return the arguments of `mcp-bench record` that select the teacher."""
    model = ["--model", settings.teacher_model] if settings.teacher_model else []
    options = [word for one in settings.teacher_options for word in ("--agent-option", one)]
    return ["--agent", settings.teacher, *model, *options]


class Steps:
    """The steps of a loop's turns."""

    def __init__(self, folder: LoopFolder, settings: LoopSettings) -> None:
        self.folder = folder
        self.settings = settings

    def teach(self, turn: int) -> Outcome:
        """Record the teacher on the training tasks.

        Raises:
            BenchError: all of its episodes are invalid, such as without a login. Nothing could be learned.
        """
        arguments = [*teacher_arguments(self.settings), *self._tasks(self.settings.train)]
        recorded = record(self.folder.turn(turn) / "teach.begun", arguments)
        found = scores(recorded)
        if found["invalid"] == found["episodes"]:
            raise BenchError(
                f"all {found['episodes']} episodes of the teacher are invalid (mcp-bench show --run "
                f"{recorded}). Mend that, and resume: they are attempted again"
            )
        return {"run": recorded}

    def attempt(self, turn: int, model: Path) -> Outcome:
        """Record the model on the training tasks, several times each, with sampling."""
        more = [
            *("--repeat", str(self.settings.attempts)),
            *("--agent-option", f"temperature={self.settings.temperature}"),
            *("--seed", str(self.settings.seed + turn)),
        ]
        with self._served(turn, "attempt", model) as endpoint:
            arguments = [*endpoint, *self._tasks(self.settings.train), *more]
            recorded = record(self.folder.turn(turn) / "attempt.begun", arguments, check=endpoint.check)
        return {"run": recorded, "model": str(model), "scores": scores(recorded)}

    def curate(self, turn: int, runs: Sequence[str]) -> Outcome:
        """Export the best attempts at each task from all runs so far, without duplicates.

        A half-solved attempt at a task that another one solved would teach its mistakes.
        """
        data, settings = self.folder.turn(turn) / "train.jsonl", self.settings
        chosen = [word for name in runs for word in ("--run", name)]
        chosen += ["--min-partial", str(settings.min_partial), "--best-partial"]
        chosen += ["--best", str(settings.attempts), "--dedupe", "exact", "--reasoning", settings.reasoning]
        none = f"no attempt has a score of {settings.min_partial:g} or more"
        return {**_exported(turn, data, chosen, none), "runs": list(runs)}

    def pair(self, turn: int, run: str) -> Outcome:
        """Export pairs of the model's attempts: the best and the worst at each task."""
        data, settings = self.folder.turn(turn) / "pairs.jsonl", self.settings
        chosen = ["--run", run, "--pairs", "--margin", str(settings.margin)]
        chosen += ["--min-partial", str(settings.min_partial), "--reasoning", settings.reasoning]
        none = f"no two attempts at a task differ by {settings.margin:g} or more"
        return {**_exported(turn, data, chosen, none), "runs": [run]}

    def base(self, data: Path) -> Outcome:
        """Make a tiny base model for a recipe without one."""
        out = self.folder.path / "base"
        make_base(self.folder.recipe, [data], out, self.settings.seed, self.settings.base_steps)
        return {"model": str(out)}

    def train(self, turn: int, data: Path, base: Path | None) -> Outcome:
        """Train the base on the data of the turn, or resume that."""
        over = [f"model.base={json.dumps(str(base))}"] if base else []
        trained = _trained(turn, self.folder.recipe, data, self.folder.turn(turn) / "train", over)
        return {**trained, "base": base and str(base)}

    def prefer(self, turn: int, data: Path, model: Path) -> Outcome:
        """Train a model on pairs of its attempts, or resume that."""
        out = self.folder.turn(turn) / "train"
        over = [f"model.base={json.dumps(str(model))}"]
        trained = _trained(turn, self.folder.recipe, data, out, over, self.settings.algorithm)
        return {**trained, "base": str(model)}

    def learn(self, turn: int, model: Path) -> Outcome:
        """Let a model learn from the rewards of its attempts, or resume that."""
        settings, place = self.settings, self.folder.turn(turn)
        ids = place / "tasks.txt"
        write_atomic(ids, "".join(f"{task}\n" for task in settings.train))
        options = {
            "algorithm": settings.algorithm,
            "benchmark": settings.benchmark,
            "steps": settings.rl_steps,
            "jobs": settings.jobs,
            "seed": settings.seed + turn,
        }
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        words += ["--", *settings.record_options]
        learned = learn_online(self.folder.recipe, model, ids, place / "learn", words)
        return {**learned, "base": str(model)}

    def measure(self, turn: int, model: Path) -> Outcome:
        """Record the model on `dev` and `test`, greedily, through the same wire as any agent."""
        found: Outcome = {"model": str(model)}
        with self._served(turn, "measure", model) as endpoint:
            for split, ids in zip(MEASURED, (self.settings.dev, self.settings.test), strict=True):
                if ids:
                    # a step of its own: a loop that was stopped during `test` does not measure `dev` again
                    found[split] = self.folder.step(
                        turn,
                        f"measure-{split}",
                        partial(self._measure, turn, split, [*endpoint, *self._tasks(ids)], endpoint.check),
                    )
        return found

    def _measure(self, turn: int, split: str, arguments: Sequence[str], check: Callable[[], None]) -> Outcome:
        """Measure a model on a split; where too many episodes are invalid, these are attempted again, once.

        Raises:
            BenchError: still too many of the base are invalid. Each later turn would be compared with that.
        """
        found: Outcome = {}
        for _ in range(2):
            recorded = record(self.folder.turn(turn) / f"{split}.begun", arguments, check=check)
            found = scores_by_group(recorded, self.settings.train)
            if not too_many_invalid(found):
                return found
        if turn == 0 and split == "dev":
            raise BenchError(
                f"{found['invalid']} of {found['episodes']} episodes of the model at the start are invalid "
                f"(mcp-bench show --run {found['run']}). Mend that, and resume: they are attempted again"
            )
        return found

    @staticmethod
    def compare(before: Outcome, after: Outcome) -> dict[str, Any]:
        """Return the changes on each split between two measurements."""
        return {
            split: flips(before[split]["run"], after[split]["run"])
            for split in MEASURED
            if split in before and split in after
        }

    def _tasks(self, ids: Sequence[str]) -> list[str]:
        settings = self.settings
        return [*tasks(settings.benchmark, ids, settings.jobs), *settings.record_options]

    def _served(self, turn: int, step: str, model: Path) -> AbstractContextManager[Endpoint]:
        port_file = self.folder.turn(turn) / f"{step}.port"
        return served(model, self._name(model), port_file, self.settings, self.settings.host)

    def _name(self, model: Path) -> str:
        """Return the model's name in the recordings: the loop's folder and the model's turn."""
        loop = self.folder.path
        turn = model.relative_to(loop).parts[0] if model.is_relative_to(loop) else "base"
        return model_name(f"{loop.name}-{turn}")


def _exported(turn: int, data: Path, arguments: Sequence[str], none: str) -> Outcome:
    """Export the rows of a turn. After the first one, `why` says that there are none."""
    try:
        return export(data, arguments)
    except FruitlessStepError:
        if turn == 1:
            raise  # there is no earlier model to stay with
        return {"rows": 0, "why": f"nothing to learn from: {none}"}


def _trained(
    turn: int, recipe: Path, data: Path, out: Path, over: Sequence[str], method: str = "sft"
) -> Outcome:
    """Train a model. After the first turn, `model` is None with `why` if nothing came of it."""
    try:
        return train_model(recipe, data, out, over, method)
    except NothingTrainedError as error:
        if turn == 1:
            raise
        return {"model": None, "why": f"{error} (see above)"}
