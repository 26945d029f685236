"""The loop itself: repeat turns up to the maximum, or until the model stops improving."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mcp_bench.trainer.folders import Outcome, locked
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.loop.gate import verdict
from mcp_bench.trainer.loop.settings import ONLINE, PAIRS, LoopSettings
from mcp_bench.trainer.loop.steps import Steps
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.trial.scores import MEASURED

Report = Callable[[str], object]


def run_loop(folder: LoopFolder, settings: LoopSettings, report: Report) -> dict[str, Any]:
    """Run the remaining steps of a loop and return its history: base scores, turns and best model.

    The first turn trains the base on the teacher's successful attempts. Later turns do what the algorithm
    says (see `mcp_bench.trainer.methods.Algorithm`). Scores on `test` are reported and never used.

    A later turn with nothing to learn from ends without a model, and the earlier one stays.

    Raises:
        StepFailedError: a command failed or was stopped. Calling again continues with it.
    """
    with locked(folder.path):
        return _run(folder, settings, report)


def _run(folder: LoopFolder, settings: LoopSettings, report: Report) -> dict[str, Any]:
    steps = Steps(folder, settings)
    _, recipe = load_recipe(str(folder.recipe))
    runs = [folder.step(1, "teach", lambda: steps.teach(1))["run"]]
    first = folder.step(1, "curate", lambda: steps.curate(1, runs))
    base = Path(recipe.model.base) if recipe.model.base else None
    if base is None:
        base = Path(folder.step(0, "base", lambda: steps.base(Path(first["data"])))["model"])
    start = folder.step(0, "measure", lambda: steps.measure(0, base))
    report(f"base: {_line(start)}")

    best, since = start, 0
    turns: list[dict[str, Any]] = []
    for turn in range(1, settings.turns + 1):
        done = _turn(folder, steps, turn, runs, base, best)
        turns.append(done)
        scored = _line(done["measure"]) if done["measure"] else "no model"
        report(f"turn {turn}: {scored}: {_word(done)} ({done['gate']['why']})")
        since = 0 if done["gate"]["promoted"] else since + 1
        best = done["measure"] if done["gate"]["promoted"] else best
        if since >= settings.patience:
            report(f"Stopping: no promotion in {since} turns")
            break
        if best["dev"]["strict_invalid_as_0"] == 1.0:
            report("Stopping: every dev task is solved")
            break
    history = {"base": start, "turns": turns, "best": best}
    folder.end(history)
    return history


def _attempt(folder: LoopFolder, steps: Steps, turn: int, model: Path) -> str:
    return str(folder.step(turn, "attempt", lambda: steps.attempt(turn, model))["run"])


def _trained(
    folder: LoopFolder, steps: Steps, turn: int, runs: list[str], base: Path, best: Path
) -> tuple[Outcome, Outcome]:
    """Return the results of the steps `curate` and `train` of a turn; `runs` gets the run of its attempts."""
    algorithm = steps.settings.algorithm if turn > 1 else "sft"
    if algorithm in ONLINE:
        return {}, folder.step(turn, "train", lambda: steps.learn(turn, best))
    if turn > 1:
        runs.append(_attempt(folder, steps, turn, best))
    pairs = algorithm in PAIRS
    curated = folder.step(
        turn, "curate", lambda: steps.pair(turn, runs[-1]) if pairs else steps.curate(turn, runs)
    )
    if "why" in curated:
        return curated, {"model": None, "why": curated["why"]}
    data = Path(curated["data"])
    return curated, folder.step(
        turn, "train", lambda: steps.prefer(turn, data, best) if pairs else steps.train(turn, data, base)
    )


def _turn(
    folder: LoopFolder, steps: Steps, turn: int, runs: list[str], base: Path, best: Outcome
) -> dict[str, Any]:
    curated, trained = _trained(folder, steps, turn, runs, base, Path(best["model"]))
    done = {"turn": turn, "curate": curated, "train": trained, "measure": None, "flips": None}
    if trained["model"] is None:
        kept = {"promoted": False, "why": trained["why"], "against": best["model"]}
        return {**done, "gate": folder.step(turn, "gate", lambda: kept)}
    measured = folder.step(turn, "measure", lambda: steps.measure(turn, Path(trained["model"])))
    changed = folder.step(turn, "flips", lambda: steps.compare(best, measured))
    gate = folder.step(turn, "gate", lambda: _gate(best, measured, changed))
    return {**done, "measure": measured, "flips": changed, "gate": gate}


def _gate(best: Outcome, measured: Outcome, changed: Outcome) -> Outcome:
    promoted, why = verdict(best["dev"], measured["dev"], changed["dev"])
    return {"promoted": promoted, "why": why, "against": best["model"]}


def _line(measured: Outcome) -> str:
    return ", ".join(
        f"{split} partial {_number(measured[split]['partial'])}, strict {_number(measured[split]['strict'])}"
        for split in MEASURED
        if split in measured
    )


def _number(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"


def _word(done: dict[str, Any]) -> str:
    return "promoted" if done["gate"]["promoted"] else "not promoted"
