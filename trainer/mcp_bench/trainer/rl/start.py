"""Start a run that learns from reward: its settings are checked and stored in a new folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mcp_bench.bridge.roles.models import keep_role_keys
from mcp_bench.bridge.run.choices import check
from mcp_bench.recorder.option_fields import check_seed
from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.servers.needs import ROLES
from mcp_bench.servers.registry import load
from mcp_bench.trainer.bases import located
from mcp_bench.trainer.folders import new_folder, refuse_used
from mcp_bench.trainer.methods import Algorithm
from mcp_bench.trainer.recipe import Recipe, load_recipe, recipe_text
from mcp_bench.trainer.refusals import learning_refusals, refuse
from mcp_bench.trainer.rl.collect import isolation, variables
from mcp_bench.trainer.rl.folder import RLFolder, RunSettings
from mcp_bench.trainer.rl.settings import check_used
from mcp_bench.trainer.rl.together import check_device
from mcp_bench.trainer.serving.checkpoint import is_adapter, read_checkpoint
from mcp_bench.trainer.serving.engines import find_engine
from mcp_bench.trainer.trial.commands import with_variables
from mcp_bench.trainer.trial.dry_run import answering, dry_run
from mcp_bench.trainer.trial.measuring import LOOPBACK, tasks
from mcp_bench.trainer.trial.recordings import given, refuse_own
from mcp_bench.trainer.trial.tasks import check_named, stored_name, task_ids


def begin(
    recipe: str, overrides: Sequence[str], start: Path, out: Path | None, choices: Mapping[str, Any]
) -> RLFolder:
    """Make the folder of a new run.

    Args:
        recipe: name of a built-in recipe, or path of a YAML file.
        overrides: values of the recipe, as KEY=VALUE.
        start: the model to start from.
        out: the folder. Default: a new one in `$MCP_BENCH_HOME/learning`.
        choices: the other fields of `RunSettings`; tasks as `task_ids` takes them.

    Raises:
        WrongUseError: something cannot be used, or the folder is not empty.
        UnknownNameError: the recipe, the benchmark or a task is unknown.
        StepFailedError: `mcp-bench record` refuses its options.
    """
    _, loaded = load_recipe(recipe, overrides)
    check_learning(loaded, choices["algorithm"], choices.get("record_options", ()))
    folder = _whole(start)
    variables(choices["agent"], "")
    check_seed(choices["seed"])
    refuse_own(choices.get("record_options", ()), "train rl")
    teacher = _teacher(choices["algorithm"], choices.get("teacher"), folder)
    refuse_used(out)
    benchmark = choices["benchmark"]
    for name in ("tasks", "canaries", "dev"):  # building tasks takes long, so files are looked at before
        check_named(choices[name] or 0, f"--{name}")
    named: dict[str, Any] = {
        "benchmark": stored_name(benchmark),
        "tasks": task_ids(benchmark, "train", choices["tasks"], option="--tasks"),
        "canaries": (
            task_ids(benchmark, "train", choices["canaries"], option="--canaries")
            if choices["canaries"]
            else []
        ),
        "dev": task_ids(benchmark, "dev", choices["dev"]) if choices["dev"] else [],
    }
    _check_trainable(benchmark, (*named["tasks"], *named["canaries"]))
    settings = check(RunSettings, {**choices, **named, "start": str(folder.absolute()), "teacher": teacher})
    _check_record_options(settings)
    made = RLFolder(new_folder(out, "learning"))
    made.make(settings, recipe_text(loaded))
    return made


def _check_trainable(benchmark: str, tasks: Iterable[str]) -> None:
    """Check that tasks may be trained on.

    Raises:
        WrongUseError: the benchmark forbids it for one.
    """
    found: Benchmark = load("benchmark", benchmark)
    for name in tasks:
        if not found.task(name).trainable:
            raise WrongUseError(
                f"the task {name} may not be trained on: {benchmark} forbids it. Leave it out"
            )


def _check_record_options(settings: RunSettings) -> None:
    """Let `record` check its options now: they cannot be changed later.

    Raises:
        StepFailedError: it refuses them; it has said why.
    """
    if not settings.record_options:
        return
    keep_role_keys(os.environ)
    with answering(LOOPBACK) as root, with_variables(variables(settings.agent, root)):
        chosen = tasks(settings.benchmark, settings.tasks, settings.jobs)
        alone = isolation(settings.agent, settings.record_options, os.environ)
        dry_run(["--agent", settings.agent, "--model", "x", *chosen, *settings.record_options, *alone])


def check_learning(recipe: Recipe, algorithm: Algorithm, record_options: Sequence[str]) -> None:
    """Check that a recipe can be learned with.

    Raises:
        WrongUseError: it cannot, also for lack of a GPU; a setting has no effect with the algorithm; or a
            model of a role has no endpoint of its own: by default, the policy's would be asked for it.
        MissingDependencyError: its engine is not installed.
    """
    refuse(learning_refusals(recipe))
    check_device(recipe)
    if recipe.rl.engine.kind == "vllm":
        find_engine("vllm", None, os.environ)
    check_used(algorithm, recipe.rl)
    for role in ROLES:
        model, endpoint = f"--{role}-model", f"--{role}-base-url"
        if given(record_options, model) and not given(record_options, endpoint):
            raise WrongUseError(
                f"{model} after -- needs {endpoint} URL: OPENAI_BASE_URL names the policy while it learns"
            )


def _whole(name: Path) -> Path:
    """Return the folder of a model with all of its weights."""
    folder = Path(located(str(name)))
    if is_adapter(folder):
        raise WrongUseError(f"{name} is an adapter: serve-model merges it; give the merged model's folder")
    read_checkpoint(folder)
    return folder


def _teacher(algorithm: str, name: Path | None, start: Path) -> str | None:
    """Return the folder of the model that is followed, if the algorithm follows one.

    Raises:
        WrongUseError: it is missing, or cannot read the tokens of the start.
    """
    if (algorithm == "opd") != (name is not None):
        raise WrongUseError("--follow names the model that --algorithm opd follows: use both, or none")
    if name is None:
        return None
    from mcp_bench.trainer.tokenizer import load_tokenizer

    folder = _whole(name)
    ours, theirs = (load_tokenizer(str(one)).get_vocab() for one in (start, folder))
    if ours != theirs:
        raise WrongUseError(
            f"{name} has another vocabulary than {start} ({len(theirs):,} and {len(ours):,} tokens): a "
            "teacher reads the tokens of the start, so it needs the same ones"
        )
    return str(folder.absolute())
