"""Training as a proposal: from the best episodes so far, or from reward."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from mcp_bench.recorder.scores.totals import finished
from mcp_bench.trainer.folders import Outcome
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder
from mcp_bench.trainer.improve.recordings import Recordings
from mcp_bench.trainer.improve.settings import ImproveSettings
from mcp_bench.trainer.loop.training import NothingTrainedError, learn_online, train_model
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.rl.folder import RLFolder
from mcp_bench.trainer.trial.commands import FruitlessStepError, export
from mcp_bench.trainer.trial.scores import episodes_of


def train(
    folder: ImproveFolder, settings: ImproveSettings, number: int, proposed: Outcome, runs: Sequence[str]
) -> Outcome:
    """Train the first weights on the best episodes of `runs`, or go on with that.

    Returns:
        `model`, the folder of the weights, or None with `why` if there is nothing to learn from.

    Raises:
        StepFailedError: the training was stopped, or could not start. Calling again continues with it.
    """
    least = float(proposed["min_partial"])
    graded = [one for name in runs for one in filter(finished, episodes_of(name))]
    if not any(one.invalid is None and one.partial is not None and one.partial >= least for one in graded):
        return {"model": None, "why": f"no episode on train has a partial score of {least:.2f}"}
    place, begun = folder.generation(number), time.monotonic()
    chosen = [word for name in runs for word in ("--run", name)]
    chosen += ["--min-partial", str(least), "--best", str(proposed["best"]), "--dedupe", "exact"]
    done: Outcome = {"runs": list(runs)}
    what = ""
    try:
        done |= export(place / "train.jsonl", [*chosen, "--reasoning", settings.reasoning])
        done |= {**train_model(folder.recipe, Path(done["data"]), place / "train", []), **done}
    except NothingTrainedError as error:
        what = str(error)
    except FruitlessStepError:
        what = "none of it can be used"
    if what:
        done |= {"model": None, "why": f"nothing came of the episodes with {least:.2f} or more: {what}"}
    return {**done, "spent": {"seconds": time.monotonic() - begun}}


def learn(folder: ImproveFolder, settings: ImproveSettings, number: int, best: Arm) -> Outcome:
    """Let the best weights learn from reward on the training tasks, or go on with that.

    It works in the harness of the best arm, as it will when it is measured.

    Returns:
        `model`, the folder of the weights, or None with `why` if a guard stopped it.

    Raises:
        BudgetSpentError: the budget does not suffice for its attempts.
        StepFailedError: it was stopped, or could not start. Calling again continues with it.
    """
    place = folder.generation(number)
    out, ids = place / "train", place / "tasks.txt"
    recordings = Recordings(folder, settings)
    if not (out / "settings.json").is_file():
        rl = load_recipe(str(folder.recipe))[1].rl
        drawn = min(rl.groups * (1 + rl.refills), len(settings.train))  # a step attempts no task twice
        recordings.check_budget(settings.rl_steps * drawn * rl.attempts)
        ids.write_text("\n".join(settings.train) + "\n", encoding="utf-8")
    options = ["--algorithm", "grpo", "--benchmark", settings.benchmark, "--steps", str(settings.rl_steps)]
    # another seed than the last time: the same draw again would be a second roll of the dice
    options += ["--jobs", str(settings.jobs), "--seed", str(settings.seed + number), "--"]
    options += ["--run-tag", f"{folder.tag_of_all}/rl-{number}", *recordings.options(best)]
    done = learn_online(folder.recipe, recordings.weights(best), ids, out, options)
    # its recordings have a tag, by which they are counted
    lines = RLFolder(out).lines()
    seconds = sum(line.get("seconds", 0) - line.get("rollout_seconds", 0) for line in lines)
    return {**done, "spent": {"seconds": seconds}}
