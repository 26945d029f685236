"""The arms of an ablation: each cohort trains one model per seed, from the same base with the same budget.

ablation.json, recipe.yaml   settings
base/                        the common base model, if the recipe has none
high/data.jsonl              a cohort
high/lengths.json            its token counts
high/seed-0/train/           a training run
high/seed-0/measure.json     its scores
result.json                  the result
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mcp_bench.recorder.cli.score_table import share
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.ablation.settings import COHORTS, AblationSettings
from mcp_bench.trainer.folders import Outcome, once
from mcp_bench.trainer.loop.training import make_base, train_model
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.trial.commands import export, run
from mcp_bench.trainer.trial.measuring import model_name, served, tasks
from mcp_bench.trainer.trial.recordings import record
from mcp_bench.trainer.trial.scores import scores

Report = Callable[[str], object]


class Arms:
    def __init__(self, folder: Path, settings: AblationSettings) -> None:
        self.folder = folder
        self.settings = settings
        self.recipe = folder / "recipe.yaml"

    def run(self, report: Report) -> dict[str, Outcome]:
        """Run the remaining steps and return, for each cohort, its data and the scores of its seeds.

        Each seed runs with all cohorts before the next one, so an ablation that is stopped early stays
        balanced.

        Raises:
            StepFailedError: a command failed or was stopped. Calling again continues with it.
            WrongUseError: a cohort has rows that training would drop, so cohorts would differ in more
                than their grades.
        """
        data = {name: once(self.folder / name / "data.json", partial(self._choose, name)) for name in COHORTS}
        rows = {name: Path(data[name]["data"]) for name in COHORTS}
        base = self._base(list(rows.values()))
        for name in COHORTS:
            once(self.folder / name / "lengths.json", partial(self._check, name, rows[name], base))
        measured: dict[str, list[Outcome]] = {name: [] for name in COHORTS}
        for seed in range(self.settings.seeds):
            for name in COHORTS:
                found = self._arm(name, seed, rows[name], base)
                measured[name].append(found)
                report(
                    f"{name}, seed {seed}: partial {share(found['partial'])}, strict {share(found['strict'])}"
                )
        return {name: {**data[name], "model": self._model(name), "seeds": measured[name]} for name in COHORTS}

    def _model(self, cohort: str) -> str:
        """Return the model name of a cohort in the recordings, the same for all seeds."""
        return model_name(f"{self.folder.name}-{cohort}")

    def _choose(self, cohort: str) -> Outcome:
        out = self.folder / cohort / "data.jsonl"
        out.parent.mkdir(exist_ok=True)
        chosen = [word for name in self.settings.runs for word in ("--run", name)]
        chosen += ["--benchmark", self.settings.benchmark, "--reasoning", self.settings.reasoning]
        return export(out, [*chosen, "--cohort", cohort, "--size", str(self.settings.size)])

    def _base(self, data: list[Path]) -> str:
        """Return the recipe's base model, or make one if it has none."""
        _, recipe = load_recipe(str(self.recipe))
        if recipe.model.base is not None:
            return recipe.model.base
        out = self.folder / "base"
        settings = self.settings

        def work() -> Outcome:
            make_base(self.recipe, data, out, 0, settings.base_steps)
            return {"model": str(out)}

        return str(once(self.folder / "base.json", work)["model"])

    def _check(self, cohort: str, data: Path, base: str) -> Outcome:
        """Count the tokens of a cohort and check that training would drop no row."""
        _, recipe = load_recipe(str(self.recipe))
        tokenizer = recipe.model.tokenizer or base
        command = ["train", "plan", str(self.recipe), "--data", str(data), "--tokenizer", tokenizer, "--json"]
        counted: Outcome = run(command)["data"]
        too_long, silent, lost = (len(counted[why]) for why in ("too_long", "untrainable", "unshown"))
        if too_long or silent or lost:
            raise WrongUseError(
                f"{too_long} rows of the cohort {cohort} are longer than data.max_length, {silent} have no "
                f"assistant tokens, and {lost} have calls that the chat template leaves out. Training "
                "would drop them, and cohorts would differ in more than their grades. Start again "
                "with other runs (--run) or a larger data.max_length (--set)"
            )
        return counted

    def _arm(self, cohort: str, seed: int, data: Path, base: str) -> Outcome:
        folder = self.folder / cohort / f"seed-{seed}"

        def train() -> Outcome:
            over = [f"model.base={json.dumps(base)}", f"training.seed={seed}"]
            return train_model(self.recipe, data, folder / "train", over)

        def measure() -> Outcome:
            settings = self.settings
            model, port = Path(trained["model"]), folder / "measure.port"
            with served(model, self._model(cohort), port, settings) as endpoint:
                named = tasks(settings.benchmark, settings.dev, settings.jobs)
                return scores(record(folder / "measure.begun", [*endpoint, *named]))

        trained = once(folder / "train.json", train)
        return once(folder / "measure.json", measure)
