"""Start an improvement, or go on with one: settings are checked and stored in its folder."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from mcp_bench.bridge.experience.editing import write_texts
from mcp_bench.bridge.harness.folder import read_harness, texts_of
from mcp_bench.bridge.run.choices import check
from mcp_bench.bridge.run.left_out import tasks_that_can_run
from mcp_bench.recorder.option_fields import check_seed
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.registry import load
from mcp_bench.trainer.folders import locked, make_folder
from mcp_bench.trainer.improve.folder import ImproveFolder
from mcp_bench.trainer.improve.gate import FEWEST_TASKS, halves
from mcp_bench.trainer.improve.policy import check_policy
from mcp_bench.trainer.improve.proposals import feedback_options, store_candidates
from mcp_bench.trainer.improve.recordings import agent_arguments
from mcp_bench.trainer.improve.settings import ImproveSettings
from mcp_bench.trainer.recipe import load_recipe
from mcp_bench.trainer.trial.dry_run import answering, dry_run
from mcp_bench.trainer.trial.measuring import LOOPBACK, tasks
from mcp_bench.trainer.trial.recipe import as_measured, trial_recipe
from mcp_bench.trainer.trial.recordings import RAY, refuse_own
from mcp_bench.trainer.trial.tasks import SPLITS, as_given, stored_name, task_ids

GENERATIONS, PATIENCE = 5, 3
"""Of an improvement without candidates."""
OURS = ("--harness", "--max-cost", "--run-tag")
"""Options of `record` that an improvement chooses itself, besides those that other commands choose, too."""


def begin(
    path: Path,
    harness: Path | None,
    candidates: Sequence[Path],
    overrides: Sequence[str],
    choices: Mapping[str, Any],
) -> None:
    """Check everything and make the folder.

    Args:
        path: the folder, new or empty.
        harness: the harness at the start, if there is one.
        candidates: harnesses to try in place of proposals of an agent.
        overrides: values of the recipe, as KEY=VALUE.
        choices: the other fields of `ImproveSettings`; `train`, `dev`, `test` as `task_ids` takes them, and
            `task`, the names of tasks or families to choose among.

    Raises:
        WrongUseError: a choice cannot be used, or the folder is not empty or cannot be made.
        BenchError: the agent cannot record, for a reason that is named.
    """
    _refuse_used(path)
    given = as_given(choices)
    values = {name: value for name, value in choices.items() if name != "task"}
    values |= {**given, "confirm": given["dev"], "candidates": len(candidates)}
    values["id"] = secrets.token_hex(4)
    values["generations"] = choices["generations"] or len(candidates) or GENERATIONS
    values["patience"] = choices["patience"] or len(candidates) or PATIENCE
    settings = check(ImproveSettings, values)
    check_seed(settings.seed)
    check_policy(settings.policy, settings.kinds)
    _check_model_options(settings)
    _check_feedback(settings)
    refuse_own(settings.record_options, "improve", OURS)
    for one in (*candidates, *([harness] if harness is not None else [])):
        read_harness(one)
    recipe = _recipe(settings, overrides)
    settings = replace(settings, **_tasks(choices))
    _dry_run(settings, harness)
    make_folder(path)
    folder = ImproveFolder(path)
    with locked(folder.path):
        _refuse_used(path)  # another process may have begun meanwhile
        if recipe is not None:
            folder.recipe.write_text(recipe, encoding="utf-8")
        store_candidates(folder, candidates)
        if harness is not None:
            write_texts(folder.harness(0), texts_of(harness))
        folder.store(settings)  # last: without it, there is no improvement


def _recipe(settings: ImproveSettings, overrides: Sequence[str]) -> str | None:
    """Return the text of the recipe with its overrides, or None: no weights are trained.

    Raises:
        WrongUseError: there are overrides of no recipe, or the recipe cannot be used.
    """
    if not settings.recipe:
        if overrides:
            raise WrongUseError("--set needs --recipe")
        return None
    if settings.rl_steps:
        overrides = as_measured(overrides, constrain_calls=settings.constrain_calls)
    loaded = load_recipe(settings.recipe, overrides)[1]
    if loaded.model.base is None:
        raise WrongUseError(
            f"--recipe {settings.recipe} names no model to start from: --set model.base=FOLDER"
        )
    if settings.rl_steps:
        from mcp_bench.trainer.rl.start import check_learning  # it imports torch, for seconds

        check_learning(loaded, "grpo", settings.record_options)
    return trial_recipe(settings.recipe, overrides)


def _tasks(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the benchmark's stored name, and the tasks of each split that can run here; of dev, two halves.

    Raises:
        WrongUseError: there are too few of them.
        UnknownNameError: the benchmark or a task is unknown.
    """
    ids = {split: task_ids(choices["benchmark"], split, choices[split], choices["task"]) for split in SPLITS}
    # other machines may have what this one lacks
    if RAY not in choices.get("record_options", ()):
        benchmark: Benchmark = load("benchmark", choices["benchmark"])
        kept = tasks_that_can_run({one: benchmark.task(one).needs for found in ids.values() for one in found})
        ids = {split: [one for one in found if one in kept] for split, found in ids.items()}
        if not ids["train"]:
            raise WrongUseError("no task of --train can run here")
    dev, confirm = halves(ids["dev"])
    for name, half in (("the gate", dev), ("confirm", confirm)):
        if len(half) < FEWEST_TASKS:
            raise WrongUseError(
                f"--dev has {len(ids['dev'])} tasks, of which {len(half)} are for {name}, which needs "
                f"{FEWEST_TASKS}: name more. Halves are made by a hash of the id"
            )
    return {**ids, "dev": dev, "confirm": confirm, "benchmark": stored_name(choices["benchmark"])}


def begun(path: Path, changed: Mapping[str, Any]) -> ImproveSettings:
    """Return the settings of a stored improvement, with larger limits in place of those of these names.

    The caller holds the folder's lock.
    """
    folder = ImproveFolder(path)
    settings = folder.read()
    if changed:
        budget = {name: value for name, value in changed.items() if name in vars(settings.budget)}
        limits = {name: value for name, value in changed.items() if name not in budget}
        settings = replace(settings, **limits, budget=replace(settings.budget, **budget))
        if budget.get("usd"):  # it could not be taken back
            if settings.feedback_agent:
                _check_feedback(settings)
            if not settings.trainable:
                _dry_run(settings, None)
        folder.store(settings)
    return settings


def _refuse_used(path: Path) -> None:
    if path.is_dir() and any(path.iterdir()):
        raise WrongUseError(f"{path} is not empty, and has no improvement: choose another folder")


def _check_model_options(settings: ImproveSettings) -> None:
    """Refuse what would be ignored: a trained model works in `chat`, others are served elsewhere."""
    own = {"--agent": settings.agent != "chat", "--model": settings.model, "--base-url": settings.base_url}
    trained = {
        "--rl-steps": settings.rl_steps,
        "--max-tokens": settings.max_tokens,
        "--constrain-calls": settings.constrain_calls,
        "--engine": settings.engine != "auto",
        "--min-partial": settings.min_partial != ImproveSettings.min_partial,
        "--reasoning": settings.reasoning != ImproveSettings.reasoning,
    }
    if settings.trainable:
        if wrong := [name for name, given in own.items() if given]:
            raise WrongUseError(f"--recipe records its own model, in the agent chat: leave out {wrong[0]}")
    elif wrong := [name for name, given in trained.items() if given]:
        raise WrongUseError(f"{wrong[0]} needs --recipe: it is for the model that is trained")


def _check_feedback(settings: ImproveSettings) -> None:
    """Check the feedback agent now: it starts only after the first recordings."""
    trains_only = settings.policy.startswith("fixed:") and "harness" not in settings.policy
    if settings.candidates and settings.feedback_agent:
        raise WrongUseError("--candidate and --feedback-agent exclude each other: who proposes?")
    if settings.candidates and trains_only:
        raise WrongUseError(f"--policy {settings.policy} tries no harness: leave out --candidate")
    if settings.feedback_agent is None:
        if not (settings.candidates or trains_only):
            raise WrongUseError(
                "who proposes changes? Name an agent with --feedback-agent, or your own with --candidate DIR"
            )
        its = {
            "--feedback-model": settings.feedback_model,
            "--feedback-base-url": settings.feedback_base_url,
            "--feedback-option": settings.feedback_options,
            "--reveal": settings.reveal,
            "--feedback-timeout": settings.feedback_timeout != ImproveSettings.feedback_timeout,
        }
        if wrong := [name for name, given in its.items() if given]:
            raise WrongUseError(f"{wrong[0]} needs --feedback-agent: it is for that agent")
        return
    agent = agent_arguments(settings.feedback_agent, settings.feedback_model, settings.feedback_base_url)
    options = feedback_options(settings)
    options += ["--max-cost", f"{settings.budget.usd}"] if settings.budget.usd else []
    dry_run([*agent, *options, "--server", "true", "--prompt", "x"])


def _dry_run(settings: ImproveSettings, harness: Path | None) -> None:
    """Check what `mcp-bench record` would say about the agent, its options and the tasks."""
    more = [word for one in settings.agent_options for word in ("--agent-option", one)]
    more += ["--harness", str(harness)] if harness is not None else []
    more += ["--max-cost", f"{settings.budget.usd}"] if settings.budget.usd and not settings.trainable else []
    ids = [*settings.train, *settings.dev, *settings.confirm, *settings.test]
    chosen = tasks(settings.benchmark, ids, settings.jobs)
    with answering(LOOPBACK) if settings.trainable else nullcontext() as root:
        url = f"{root}/v1" if root else settings.base_url
        agent = agent_arguments(settings.agent, "x" if settings.trainable else settings.model, url)
        dry_run([*agent, *chosen, *more, *settings.record_options])
