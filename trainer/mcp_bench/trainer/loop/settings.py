"""What a loop was asked for. It is stored when the loop begins, and holds when it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt

from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import WrongUseError


class TrialSettings(BaseModel):
    """What training models and measuring them takes. Tasks are ids."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recipe: str
    """As it was named. What was put over it is in the recipe that is kept beside these settings."""
    benchmark: str
    dev: list[str] = Field(min_length=1)
    """What models are measured on."""
    max_tokens: PositiveInt | None = None
    """Of each answer of a model."""
    reasoning: Literal["keep", "drop"] = "drop"
    """Of the agents, in what is learned from."""
    jobs: PositiveInt = 1
    engine: str = "auto"
    base_steps: PositiveInt | None = None
    """Training steps of the base model that is made where the recipe has none; None: as many as it takes."""


class LoopSettings(TrialSettings):
    """`train` is learned from, `dev` decides, `test` is only reported."""

    turns: PositiveInt
    train: list[str] = Field(min_length=1)
    test: list[str]
    teacher: str
    teacher_model: str | None = None
    min_partial: float = Field(default=0.5, ge=0, le=1)
    attempts: PositiveInt = 2
    """Tries of the model at each training task, from the second turn on."""
    temperature: float = Field(default=0.8, gt=0)
    patience: PositiveInt = 2
    """Turns in a row that are not promoted, after which the loop ends."""
    seed: int = 0


def task_ids(benchmark: str, split: str, asked: str) -> list[str]:
    """Return the ids that `asked` means: the first so many tasks of a split, or those in a file, a line each.

    Raises:
        WrongUseError: it is neither; a task of the file is of another split; it is none, and `test` is not
            what is asked for.
        UnknownNameError: there is no such benchmark or task.
    """
    from mcp_bench.servers.registry import load

    found: Benchmark = load("benchmark", benchmark)
    names = _first(found, split, int(asked)) if asked.isdecimal() else _in_file(found, split, asked)
    if not names and split != "test":
        raise WrongUseError(f"--{split} {asked}: there is no task in that")
    return names


def _first(benchmark: Benchmark, split: str, number: int) -> list[str]:
    return [task.id for task in benchmark.tasks(split, number)] if number else []


def _in_file(benchmark: Benchmark, split: str, asked: str) -> list[str]:
    path = Path(asked)
    try:
        names = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUseError(
            f"--{split} {asked}: neither a number of tasks nor a file of ids ({error})"
        ) from error
    for name in names:
        task = benchmark.task(name)
        if task.split != split:
            raise WrongUseError(f"{path}: {name} is a task of {task.split}, not of {split}")
    return names
