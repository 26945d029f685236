"""The arms of an ablation: a cohort, trained on from one base with one budget, once for each seed.

ablation.json, recipe.yaml   what was asked for
base/                        the base model, where the recipe has none: the same for all
high/data.jsonl              a cohort
high/lengths.json            its tokens
high/seed-0/train/           a training run
high/seed-0/measure.json     its scores
result.json                  what came of it all
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from mcp_bench.recorder.cli.score_table import share
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.ablation.settings import COHORTS, AblationSettings
from mcp_bench.trainer.loop.commands import export, record, run
from mcp_bench.trainer.loop.folder import Outcome, once
from mcp_bench.trainer.loop.measuring import model_name, served, tasks
from mcp_bench.trainer.loop.scores import scores
from mcp_bench.trainer.loop.training import make_base, train_model
from mcp_bench.trainer.recipe import load_recipe

Tell = Callable[[str], None]


class Arms:
    def __init__(self, folder: Path, settings: AblationSettings) -> None:
        self.folder = folder
        self.settings = settings
        self.recipe = folder / "recipe.yaml"

    def run(self, tell: Tell) -> dict[str, Outcome]:
        """Run what is left; return of each cohort its data, and of each of its seeds the scores.

        Seeds come one after the other, with all cohorts in each: what is stopped early is still balanced.

        Raises:
            StepFailedError: a command failed or was stopped. The same call goes on from there.
            WrongUseError: a cohort has rows that are too long to train on, so that cohorts would differ in
                more than their grades.
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
                tell(
                    f"{name}, seed {seed}: partial {share(found['partial'])}, strict {share(found['strict'])}"
                )
        return {name: {**data[name], "model": self._model(name), "seeds": measured[name]} for name in COHORTS}

    def _model(self, cohort: str) -> str:
        """Return what the models of a cohort are called in the recordings, whatever their seed."""
        return model_name(f"{self.folder.name}-{cohort}")

    def _choose(self, cohort: str) -> Outcome:
        out = self.folder / cohort / "data.jsonl"
        out.parent.mkdir(exist_ok=True)
        chosen = [word for name in self.settings.runs for word in ("--run", name)]
        chosen += ["--benchmark", self.settings.benchmark, "--reasoning", self.settings.reasoning]
        return export(out, [*chosen, "--cohort", cohort, "--size", str(self.settings.size)])

    def _base(self, data: list[Path]) -> str:
        """Return the base model, which is made where the recipe has none."""
        _, recipe = load_recipe(str(self.recipe))
        if recipe.model.base is not None:
            return recipe.model.base
        out = self.folder / "base"
        asked = self.settings

        def work() -> Outcome:
            make_base(self.recipe, data, out, 0, asked.base_steps)
            return {"model": str(out)}

        return str(once(self.folder / "base.json", work)["model"])

    def _check(self, cohort: str, data: Path, base: str) -> Outcome:
        """Count tokens: a row that is too long, or has nothing to learn, would be left out in training."""
        _, recipe = load_recipe(str(self.recipe))
        tokenizer = recipe.model.tokenizer or base
        asked = ["train", "plan", str(self.recipe), "--data", str(data), "--tokenizer", tokenizer, "--json"]
        counted: Outcome = run(asked)["data"]
        too_long, silent = len(counted["too_long"]), len(counted["untrainable"])
        if too_long or silent:
            raise WrongUseError(
                f"{too_long} rows of the cohort {cohort} are longer than data.max_length, and in {silent} "
                "the agent said nothing: they would be left out, and cohorts would differ in more than their "
                "grades. Begin again with other runs (--run), or with a larger data.max_length (--set)"
            )
        return counted

    def _arm(self, cohort: str, seed: int, data: Path, base: str) -> Outcome:
        folder = self.folder / cohort / f"seed-{seed}"

        def train() -> Outcome:
            over = [f"model.base={json.dumps(base)}", f"training.seed={seed}"]
            return train_model(self.recipe, data, folder / "train", over)

        def measure() -> Outcome:
            asked = self.settings
            model, port = Path(trained["model"]), folder / "measure.port"
            with served(model, self._model(cohort), port, asked.engine, asked.max_tokens) as endpoint:
                named = tasks(asked.benchmark, asked.dev, asked.jobs)
                return scores(record(folder / "measure.begun", [*endpoint, *named]))

        trained = once(folder / "train.json", train)
        return once(folder / "measure.json", measure)
