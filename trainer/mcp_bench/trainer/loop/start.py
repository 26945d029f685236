"""Start a loop: its settings are checked and stored in a new folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_bench.bridge.run.agent_setup import load_agent
from mcp_bench.bridge.run.choices import check
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.folders import new_folder, refuse_used
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.loop.settings import ONLINE, PAIRS, LoopSettings
from mcp_bench.trainer.loop.steps import teacher_arguments
from mcp_bench.trainer.preference.train import check_recipe
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.trial.dry_run import answering, dry_run
from mcp_bench.trainer.trial.measuring import tasks
from mcp_bench.trainer.trial.recipe import as_measured, trial_recipe
from mcp_bench.trainer.trial.recordings import refuse_own
from mcp_bench.trainer.trial.tasks import SPLITS, as_given, stored_name, task_ids


def begin(
    recipe: str, overrides: Sequence[str], out: Path | None, choices: Mapping[str, Any]
) -> tuple[LoopFolder, LoopSettings]:
    """Make the folder of a new loop.

    Args:
        recipe: name of a built-in recipe, or path of a YAML file.
        overrides: values of the recipe, as KEY=VALUE.
        out: the folder. Default: a new one in `$MCP_BENCH_HOME/loops`.
        choices: the other fields of `LoopSettings`; `train`, `dev` and `test` as `task_ids` takes them.

    Raises:
        WrongUseError: the recipe or a choice cannot be used, or the folder is not empty.
        UnknownNameError: the benchmark or a task is unknown.
        StepFailedError: `mcp-bench record` refuses its options.
    """
    refuse_used(out)
    settings = check(LoopSettings, {**choices, "recipe": recipe, **as_given(choices)})
    refuse_own(settings.record_options, "loop")
    _check_teacher(settings)
    if settings.turns > 1 and settings.algorithm in ONLINE:
        from mcp_bench.trainer.rl.start import check_learning  # it imports torch, for seconds

        overrides = as_measured(overrides, constrain_calls=settings.constrain_calls)
        check_learning(load_recipe(recipe, overrides)[1], settings.algorithm, settings.record_options)
    if settings.turns > 1 and settings.algorithm in PAIRS:
        asked = load_recipe(recipe, overrides)[1]
        check_recipe(asked, settings.algorithm)
        if asked.lora is not None:
            raise WrongUseError(
                f"--algorithm {settings.algorithm} goes on from a whole model: use a recipe without lora"
            )
    text = trial_recipe(recipe, overrides)
    named: dict[str, Any] = {split: task_ids(settings.benchmark, split, choices[split]) for split in SPLITS}
    settings = replace(settings, benchmark=stored_name(settings.benchmark), **named)
    _check_record_options(settings)
    folder = LoopFolder(new_folder(out, "loops"))
    folder.recipe.write_text(text, encoding="utf-8")
    folder.make(settings)
    return folder, settings


def _check_teacher(settings: LoopSettings) -> None:
    """Check the teacher now: it is recorded only after the base model was made and measured."""
    options = {}
    for one in settings.teacher_options:
        key, given, options[key] = one.partition("=")
        if not given or not key:
            raise WrongUseError(f"--teacher-option {one!r} is not of the form KEY=VALUE")
    try:
        load_agent(settings.teacher, options, settings.teacher_model)
    except WrongUseError as error:
        raise WrongUseError(f"--teacher: {error}") from error


def _check_record_options(settings: LoopSettings) -> None:
    """Check the options of `record`, which cannot be changed later: for the teacher, and for a model."""
    if not settings.record_options:
        return
    more = settings.record_options
    dry_run([*teacher_arguments(settings), *tasks(settings.benchmark, settings.train, settings.jobs), *more])
    with answering(settings.host) as root:
        model = ["--agent", "chat", "--base-url", f"{root}/v1", "--model", "x"]
        dry_run([*model, *tasks(settings.benchmark, settings.dev, settings.jobs), *more])
