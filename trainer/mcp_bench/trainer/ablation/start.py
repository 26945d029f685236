"""Start, resume and run an ablation."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_bench.bridge.run.choices import check
from mcp_bench.recorder.atomic_file import write_atomic
from mcp_bench.recorder.curation.pipeline import Curation
from mcp_bench.recorder.curation.selection import Selection
from mcp_bench.recorder.export.manifest import chosen_episodes
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.ablation.arms import Arms
from mcp_bench.trainer.ablation.settings import COHORTS, AblationSettings
from mcp_bench.trainer.ablation.verdict import result
from mcp_bench.trainer.folders import locked, new_folder, refuse_used, store_settings, stored_settings
from mcp_bench.trainer.trial.recipe import trial_recipe
from mcp_bench.trainer.trial.tasks import check_named, stored_name, task_ids

SETTINGS = "ablation.json"


def begin(
    recipe: str, overrides: Sequence[str], out: Path | None, choices: Mapping[str, Any]
) -> tuple[Path, AblationSettings]:
    """Make the folder of a new ablation.

    Args:
        recipe: name of a built-in recipe, or path of a YAML file.
        overrides: values of the recipe, as KEY=VALUE.
        out: the folder. Default: a new one in `$MCP_BENCH_HOME/ablations`.
        choices: the other fields of `AblationSettings`; `dev` as `task_ids` takes it; `run_tags` as
            `run_paths` takes its `tags`.

    Raises:
        WrongUseError: there are no runs, or too few attempts in them; the recipe or a choice cannot be used;
            or the folder is not empty.
        UnknownNameError: a run, the benchmark or a task is unknown.
        NothingToExportError: no attempt in the runs can be used.
    """
    choices = dict(choices)
    # fixed, since later runs would change cohorts
    runs = [path.name for path in run_paths(choices["runs"], tags=choices.pop("run_tags", ()))]
    if not runs:
        raise WrongUseError("no runs to select rows from: record some (see `mcp-bench record --help`)")
    refuse_used(out)
    check_named(choices["dev"], "--dev")
    given = {"recipe": recipe, "dev": [str(choices["dev"])], "runs": runs}
    settings = check(AblationSettings, {**choices, **given})
    text = trial_recipe(recipe, overrides, serves_base=False)
    settings = replace(settings, benchmark=stored_name(settings.benchmark))
    _check_cohorts(settings)
    dev = task_ids(settings.benchmark, "dev", choices["dev"])  # last: this takes long for many
    settings = replace(settings, dev=dev)
    folder = new_folder(out, "ablations")
    (folder / "recipe.yaml").write_text(text, encoding="utf-8")
    store_settings(folder / SETTINGS, settings)
    return folder, settings


def _check_cohorts(settings: AblationSettings) -> None:
    """Check now that the runs have cohorts of this size. The folder keeps its settings, also a wrong one."""
    selection = Selection(
        runs=tuple(settings.runs),
        benchmarks=(settings.benchmark,),
        cohort=COHORTS[0],
        size=settings.size,
        on_leak="drop",
    )
    chosen_episodes(Curation(selection))


def begun(folder: Path) -> tuple[Path, AblationSettings]:
    """Return a stopped ablation.

    Raises:
        WrongUseError: the folder has none, or its settings cannot be read.
    """
    return folder.absolute(), stored_settings(folder / SETTINGS, AblationSettings, "ablation")


def run(folder: Path, settings: AblationSettings, report: Callable[[str], object]) -> dict[str, Any]:
    """Run the remaining steps, store the result in `result.json` and return it.

    Raises:
        StepFailedError: a command failed or was stopped. Calling again continues with it.
    """
    with locked(folder):
        found = result(Arms(folder, settings).run(report))
        write_atomic(folder / "result.json", json.dumps(found, indent=1) + "\n")
        return found
