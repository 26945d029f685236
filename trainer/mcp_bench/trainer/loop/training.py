"""Training steps: started once, resumed after a stop."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mcp_bench.trainer.folders import Outcome, read_step
from mcp_bench.trainer.loop.torchrun import launcher
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.rl.folder import RLFolder
from mcp_bench.trainer.sft.run_folder import RunFolder
from mcp_bench.trainer.trial.commands import FruitlessStepError, StepFailedError, run


class NothingTrainedError(FruitlessStepError):
    """A training has no result; the text says why."""


def make_base(recipe: Path, data: Sequence[Path], out: Path, seed: int, steps: int | None) -> None:
    """Make a tiny base model with a vocabulary from the data."""
    shutil.rmtree(out, ignore_errors=True)  # left by a stopped attempt
    more = ["--seed", str(seed), *(["--steps", str(steps)] if steps is not None else [])]
    files = [word for path in data for word in ("--data", str(path))]
    run(["train", "tiny-base", "--recipe", str(recipe), *files, "--out", str(out), *more])


def train_model(
    recipe: Path, data: Path, out: Path, overrides: Sequence[str], method: str = "sft"
) -> Outcome:
    """Train a model with a recipe, or resume that. Return the paths and the figures of the run.

    Args:
        recipe: the recipe's file.
        data: rows, or pairs.
        out: the run's folder.
        overrides: values of the recipe, as KEY=VALUE.
        method: sft, dpo or kto.

    Raises:
        NothingTrainedError: no row can be used, or the training diverged; the text says which.
        StepFailedError: it was stopped, or could not start.
    """
    if (out / "data.json").is_file():
        command = ["train", method, "--resume", str(out)]
    else:
        shutil.rmtree(out, ignore_errors=True)
        over = [word for value in overrides for word in ("--set", value)]
        command = ["train", method, str(recipe), "--data", str(data), "--out", str(out), *over]
    try:
        run(command, launcher=launcher(load_recipe(str(recipe), overrides)[1]))
    except FruitlessStepError as error:
        begun = (out / "data.json").is_file()  # written once there are rows to train on
        raise NothingTrainedError("the training diverged" if begun else "too little to learn from") from error
    return {"model": str(RunFolder(out).model), "data": str(data), **_figures(out)}


def learn_online(recipe: Path, start: Path, tasks: Path, out: Path, options: Sequence[str]) -> Outcome:
    """Let a model learn from reward, or resume that. Return the result and the figures of the run.

    `model` is None, with `why`, if a guard stopped it.

    Args:
        recipe: the recipe's file.
        start: the model to start from.
        tasks: a file with the ids of training tasks.
        out: the run's folder.
        options: more options of `mcp-bench train rl`.
    """
    if (out / "settings.json").is_file():
        command = ["--resume", str(out)]
    else:
        shutil.rmtree(out, ignore_errors=True)
        command = [str(recipe), "--start", str(start), "--tasks", str(tasks), "--out", str(out), *options]
    try:
        train_rl(recipe, out, command)
    except FruitlessStepError:
        why = (read_step(RLFolder(out).stopped) or {}).get("why", "no figures")
        return {"model": None, "why": f"a guard stopped it: {why}", "start": str(start), **rl_figures(out)}
    return {"model": str(out / "model"), "start": str(start), **rl_figures(out)}


def train_rl(recipe: Path, out: Path, arguments: Sequence[str]) -> Any:
    """Run `mcp-bench train rl`, in as many processes as the recipe has devices; see `run`.

    Args:
        recipe: the recipe's file.
        out: the run's folder.
        arguments: those of `train rl`.

    Raises:
        FruitlessStepError: a guard stopped it.
        StepFailedError: it failed.
    """
    try:
        return run(["train", "rl", *arguments], launcher=launcher(load_recipe(str(recipe))[1]))
    except StepFailedError as error:
        if not RLFolder(out).fruitless:
            raise
        raise FruitlessStepError(str(error)) from error  # another process was noticed to end before the first


def rl_figures(out: Path) -> Outcome:
    """Return a summary of a run that learned from reward, also of one that a guard stopped."""
    lines = RLFolder(out).lines()
    rewards = [line["reward"] for line in lines if line["reward"] is not None]
    return {
        "steps": len(lines),
        "episodes": sum(line["episodes"] for line in lines),
        "first_reward": rewards[0] if rewards else None,
        "last_reward": rewards[-1] if rewards else None,
    }


def _figures(out: Path) -> Outcome:
    """Return a summary of a training run."""
    folder = RunFolder(out)
    lines = list(folder.read_metrics())
    data = json.loads(folder.data.read_text())
    return {
        "steps": len(lines),
        "first_loss": lines[0]["loss"],
        "last_loss": lines[-1]["loss"],
        "tokens": sum(line["tokens"] for line in lines),
        "rows": data["rows"],
        "too_long": len(data["too_long"]),
    }
