"""Training steps: started once, resumed after a stop."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

from mcp_bench.trainer.launch import launcher_arguments
from mcp_bench.trainer.loop.commands import run
from mcp_bench.trainer.loop.folder import Outcome
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.sft.run_folder import RunFolder


def make_base(recipe: Path, data: Sequence[Path], out: Path, seed: int, steps: int | None) -> None:
    """Make a tiny base model with a vocabulary from the data."""
    shutil.rmtree(out, ignore_errors=True)  # left by a stopped attempt
    more = ["--seed", str(seed), *(["--steps", str(steps)] if steps is not None else [])]
    files = [word for path in data for word in ("--data", str(path))]
    run(["train", "tiny-base", "--recipe", str(recipe), *files, "--out", str(out), *more])


def train_model(recipe: Path, data: Path, out: Path, overrides: Sequence[str]) -> Outcome:
    """Train a model with a recipe, or resume that. Return the paths and the figures of the run."""
    launcher = launcher_arguments(load_recipe(str(recipe), overrides)[1])
    if (out / "data.json").is_file():
        run(["train", "sft", "--resume", str(out)], launcher=launcher)
    else:
        shutil.rmtree(out, ignore_errors=True)
        over = [word for value in overrides for word in ("--set", value)]
        command = ["train", "sft", str(recipe), "--data", str(data), "--out", str(out), *over]
        run(command, launcher=launcher)
    return {"model": str(RunFolder(out).model), "data": str(data), **_figures(out)}


def _figures(out: Path) -> Outcome:
    """Return a summary of a training run."""
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    data = json.loads((out / "data.json").read_text())
    return {
        "steps": len(lines),
        "first_loss": lines[0]["loss"],
        "last_loss": lines[-1]["loss"],
        "tokens": sum(line["tokens"] for line in lines),
        "rows": data["rows"],
        "too_long": len(data["too_long"]),
    }
