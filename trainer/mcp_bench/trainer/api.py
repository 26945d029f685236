"""The Python API of training: what `mcp-bench train`, `serve-model`, `loop` and `ablate` do.

    from mcp_bench.trainer.api import serve, train_sft

    trained = train_sft("qwen3.5-9b-lora-1gpu", "train.jsonl", out="tuned")
    with serve(trained.model) as server:
        record("chat", model=server.model, base_url=server.base_url, env=server.env, split="dev")

Training runs in this process. Importing this module imports no torch. Runs, loops and ablations are stored in
`$MCP_BENCH_HOME` unless `out` names a folder.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.cpu_threads import limit_spinning
from mcp_bench.trainer.methods import Algorithm
from mcp_bench.trainer.plan import Plan, plan_recipe
from mcp_bench.trainer.rl.trackers import check_installed
from mcp_bench.trainer.serving import Server, serve

if TYPE_CHECKING:
    from mcp_bench.trainer.sft.run_folder import RunFolder
    from mcp_bench.trainer.sft.train import Ready

__all__ = [
    "Plan",
    "Server",
    "ShippedRecipe",
    "Trained",
    "ablate",
    "loop",
    "plan",
    "recipes",
    "resume_ablation",
    "resume_loop",
    "resume_sft",
    "serve",
    "train_sft",
]

Files = str | Path | Sequence[str | Path]
"""One file, or several."""
Overrides = Mapping[str, Any]
"""Values of a recipe to override, such as `{"training.epochs": 3}`."""
Tasks = int | str | Path | Sequence[str]
"""The first N tasks of a split, a file with ids, or the ids."""
Report = Callable[[str], object]
"""Called with a line about each finished step."""


@dataclass(frozen=True)
class ShippedRecipe:
    """A built-in recipe. Copy its file to change it."""

    name: str
    summary: str
    path: Path


@dataclass(frozen=True)
class Trained:
    """A training run that is over, or was stopped."""

    folder: Path
    model: Path | None
    """The result, ready to serve; None if the run was stopped."""
    step: int
    steps: int
    loss: float
    metrics: tuple[Mapping[str, Any], ...]
    """One row for each step."""
    evaluations: tuple[Mapping[str, Any], ...] = ()
    """The scores of held-out rows, if there are any."""

    @property
    def stopped(self) -> bool:
        """Whether a signal ended the run early: `resume_sft(folder)` goes on."""
        return self.model is None


def recipes() -> list[ShippedRecipe]:
    """Return the built-in recipes."""
    from mcp_bench.trainer.recipe import load_recipe, shipped

    return [ShippedRecipe(name, load_recipe(name)[1].summary, path) for name, path in shipped().items()]


def plan(
    recipe: str | Path, *, overrides: Overrides | None = None, data: Files = (), tokenizer: str | None = None
) -> Plan:
    """Estimate what a recipe needs, without a GPU: `mcp-bench train plan`.

    Args:
        recipe: Name of a built-in recipe, or path of a YAML file.
        overrides: Values of the recipe to override.
        data: Files with rows from `mcp-bench export --format trl`.
        tokenizer: Folder or Hub name of the tokenizer, to count the tokens of `data`.

    Returns:
        The figures. `refused` says why the recipe cannot work, if it cannot.

    Raises:
        WrongUseError: recipe, files or tokenizer cannot be used.
        BenchError: rows are malformed, or training and serving templates disagree.
    """
    return plan_recipe(str(recipe), _overrides(overrides), _paths(data), tokenizer)[1]


def train_sft(
    recipe: str | Path,
    data: Files,
    *,
    eval_data: Files = (),
    tokenizer: str | None = None,
    overrides: Overrides | None = None,
    out: str | Path | None = None,
    report_to: Sequence[str] = (),
) -> Trained:
    """Fine-tune a model on exported rows, in this process: `mcp-bench train sft`.

    In the main thread, Ctrl-C finishes the step, saves a checkpoint and returns.

    Args:
        recipe: Name of a built-in recipe, or path of a YAML file.
        data: Files with rows from `mcp-bench export --format trl`.
        eval_data: Files with held-out rows, to score the model on while it learns.
        tokenizer: Folder or Hub name of the tokenizer. By default the base model's.
        overrides: Values of the recipe to override.
        out: Folder for the run. By default a new one in `$MCP_BENCH_HOME/training`.
        report_to: Services to log to, too: wandb, tensorboard, trackio.

    Raises:
        WrongUseError: the recipe cannot work here, or an input cannot be used.
        DivergedError: the loss exploded. The last good checkpoint is kept.
        OutOfMemoryError: memory is too small for a single sequence.
        BenchError: anything else that you can act on.
    """
    check_installed(report_to)
    limit_spinning()
    from mcp_bench.trainer.sft.start import begin

    where, held_out = None if out is None else Path(out), _paths(eval_data)
    own = _overrides(overrides)
    folder, ready = begin(str(recipe), _paths(data), tokenizer, own, where, held_out=held_out)
    return _train(folder, ready, report_to)


def resume_sft(folder: str | Path, *, report_to: Sequence[str] = ()) -> Trained:
    """Resume a stopped training run from its last complete checkpoint, with its stored recipe and data.

    Raises:
        WrongUseError: the folder has no run, or its data changed.
    """
    check_installed(report_to)
    limit_spinning()
    from mcp_bench.trainer.sft.run_folder import RunFolder
    from mcp_bench.trainer.sft.start import again

    run = RunFolder(Path(folder))
    ready = again(run)
    return _trained(run) if ready is None else _train(run, ready, report_to)


def _train(folder: RunFolder, ready: Ready, report_to: Sequence[str]) -> Trained:
    from mcp_bench.trainer.sft.train import train

    outcome = train(folder, ready, report_to)
    return _trained(folder, outcome.steps)


def _trained(folder: RunFolder, steps: int | None = None) -> Trained:
    metrics = tuple(folder.read_metrics())
    last = metrics[-1]
    return Trained(
        folder=folder.path,
        model=folder.model if folder.model.is_dir() else None,
        step=last["step"],
        steps=last["steps"] if steps is None else steps,
        loss=last["loss"],
        metrics=metrics,
        evaluations=tuple(folder.read_evaluations()),
    )


def loop(
    recipe: str | Path,
    *,
    turns: int = 1,
    train: Tasks = 100,
    dev: Tasks = 50,
    test: Tasks = 50,
    benchmark: str = "saasworld",
    teacher: str = "oracle",
    teacher_model: str | None = None,
    teacher_options: Mapping[str, Any] | None = None,
    min_partial: float = 0.5,
    attempts: int = 2,
    temperature: float = 0.8,
    patience: int = 2,
    seed: int = 0,
    algorithm: Algorithm = "sft",
    margin: float = 0.3,
    rl_steps: int = 20,
    max_tokens: int | None = None,
    base_steps: int | None = None,
    reasoning: Literal["keep", "drop"] = "drop",
    jobs: int = 2,
    engine: Literal["auto", "vllm", "torch"] = "auto",
    constrain_calls: bool = False,
    host: str = "127.0.0.1",
    record_options: Sequence[str] = (),
    overrides: Overrides | None = None,
    out: str | Path | None = None,
    report: Report = print,
) -> dict[str, Any]:
    """Record, curate, train, serve and measure until the model stops improving: `mcp-bench loop`.

    The options are those of the command. Each step is a process of its own.

    Args:
        recipe: Name of a built-in recipe, or path of a YAML file.
        turns: Maximum number of turns.
        train: Training tasks: the first N of the split, a file with ids, or the ids.
        dev: Tasks to measure models on, likewise.
        test: Tasks for reported scores only, likewise; 0 for none.
        benchmark: Benchmark to run.
        teacher: Agent of the first turn.
        teacher_model: Its model.
        teacher_options: Its agent options, such as `{"slips": 0.2}`.
        min_partial: Train only on attempts with at least this partial score.
        attempts: The model's attempts per training task from the second turn on.
        temperature: Sampling temperature of these attempts.
        patience: Stop after this many turns in a row without promotion.
        seed: Seed of the base model and the attempts.
        algorithm: How turns after the first learn; see `mcp_bench.trainer.methods.Algorithm`.
        margin: Minimum difference between the grades of a pair (dpo, kto).
        rl_steps: Policy updates of a turn that learns online.
        max_tokens: Maximum tokens per answer.
        base_steps: Training steps of the base model that is made if the recipe has none.
        reasoning: Whether training rows keep the agents' reasoning.
        jobs: Parallel episodes.
        engine: Serving engine.
        constrain_calls: Hold the models' tool calls to the tools' schemas.
        host: Address of this machine at which the models are served.
        record_options: Other arguments of `mcp-bench record`, such as `["--ray"]`.
        overrides: Values of the recipe to override.
        out: Folder for the loop. By default a new one in `$MCP_BENCH_HOME/loops`.
        report: Called with a line for each turn.

    Returns:
        The history: `base`, `turns`, and `best`, whose `model` is the folder of the best model.

    Raises:
        WrongUseError: recipe or tasks cannot be used, or the folder is not empty.
        StepFailedError: a command failed. `resume_loop` goes on with it.
    """
    from mcp_bench.trainer.loop.start import begin
    from mcp_bench.trainer.loop.turns import run_loop

    choices = {
        "turns": turns,
        "train": train,
        "dev": dev,
        "test": test,
        "benchmark": benchmark,
        "teacher": teacher,
        "teacher_model": teacher_model,
        "teacher_options": [f"{key}={value}" for key, value in (teacher_options or {}).items()],
        "min_partial": min_partial,
        "attempts": attempts,
        "temperature": temperature,
        "patience": patience,
        "seed": seed,
        "max_tokens": max_tokens,
        "base_steps": base_steps,
        "reasoning": reasoning,
        "jobs": jobs,
        "engine": engine,
        "constrain_calls": constrain_calls,
        "algorithm": algorithm,
        "margin": margin,
        "rl_steps": rl_steps,
        "host": host,
        "record_options": [*record_options],
    }
    folder, settings = begin(str(recipe), _overrides(overrides), None if out is None else Path(out), choices)
    report(f"Loop: {folder.path}")
    return run_loop(folder, settings, report)


def resume_loop(folder: str | Path, *, report: Report = print) -> dict[str, Any]:
    """Go on with a stopped loop and return its history; that of a finished loop at once.

    Raises:
        WrongUseError: the folder has no loop.
    """
    from mcp_bench.trainer.loop.folder import LoopFolder
    from mcp_bench.trainer.loop.turns import run_loop

    found = LoopFolder(Path(folder).absolute())
    return run_loop(found, found.read(), report)


def ablate(
    recipe: str | Path,
    size: int,
    *,
    runs: Sequence[str] = (),
    run_tags: Sequence[str] = (),
    seeds: int = 3,
    dev: Tasks = 50,
    benchmark: str = "saasworld",
    max_tokens: int | None = None,
    base_steps: int | None = None,
    reasoning: Literal["keep", "drop"] = "drop",
    jobs: int = 2,
    engine: Literal["auto", "vllm", "torch"] = "auto",
    constrain_calls: bool = False,
    overrides: Overrides | None = None,
    out: str | Path | None = None,
    report: Report = print,
) -> dict[str, Any]:
    """Test whether higher-graded recordings train a better model: `mcp-bench ablate`.

    Args:
        recipe: Name of a built-in recipe, or path of a YAML file.
        size: Rows per cohort.
        runs: Runs to select rows from. By default all.
        run_tags: Only runs with all of these tags.
        seeds: Models per cohort.
        dev: Tasks to measure models on: the first N, a file with ids, or the ids.
        benchmark: Benchmark to run.
        max_tokens: As for `loop`, like the rest.
        base_steps: Training steps of the base model that is made if the recipe has none.
        reasoning: Whether training rows keep the agents' reasoning.
        jobs: Parallel episodes.
        engine: Serving engine.
        constrain_calls: Hold the models' tool calls to the tools' schemas.
        overrides: Values of the recipe to override.
        out: Folder. By default a new one in `$MCP_BENCH_HOME/ablations`.
        report: Called with a line for each model.

    Returns:
        `cohorts` with their scores, `differences` between them, and `verdict` in words.

    Raises:
        WrongUseError: there are no runs, or the recipe or a cohort cannot be used.
        StepFailedError: a command failed. `resume_ablation` goes on with it.
    """
    from mcp_bench.trainer.ablation.start import begin, run

    choices = {
        "runs": runs,
        "run_tags": run_tags,
        "size": size,
        "seeds": seeds,
        "dev": dev,
        "benchmark": benchmark,
        "max_tokens": max_tokens,
        "base_steps": base_steps,
        "reasoning": reasoning,
        "jobs": jobs,
        "engine": engine,
        "constrain_calls": constrain_calls,
    }
    folder, settings = begin(str(recipe), _overrides(overrides), None if out is None else Path(out), choices)
    report(f"Ablation: {folder}")
    return run(folder, settings, report)


def resume_ablation(folder: str | Path, *, report: Report = print) -> dict[str, Any]:
    """Go on with a stopped ablation and return its result.

    Raises:
        WrongUseError: the folder has none.
    """
    from mcp_bench.trainer.ablation.start import begun, run

    return run(*begun(Path(folder)), report)


def _paths(files: Files) -> list[Path]:
    return [Path(file) for file in ([files] if isinstance(files, str | Path) else files)]


def _overrides(values: Overrides | None) -> list[str]:
    if isinstance(values, str):
        raise WrongUseError("overrides is a mapping, such as {'training.epochs': 3}")
    # YAML cannot read JSON's pairs of surrogates
    return [
        f"{key}={json.dumps(str(value) if isinstance(value, Path) else value, ensure_ascii=False)}"
        for key, value in (values or {}).items()
    ]
