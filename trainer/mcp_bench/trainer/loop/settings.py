"""Settings of a loop. They are stored at the start and used again on resume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, model_validator

from mcp_bench.servers.contracts import Benchmark
from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.methods import Algorithm, Online, Pairwise


class TrialSettings(BaseModel):
    """Settings for training and measuring models. Tasks are given by id."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    recipe: str
    """Name or path as given. The recipe stored beside these settings includes the overrides."""
    benchmark: str
    dev: list[str] = Field(min_length=1)
    """Tasks that models are measured on."""
    max_tokens: PositiveInt | None = None
    """Maximum tokens per answer."""
    reasoning: Literal["keep", "drop"] = "drop"
    """Whether training rows keep the agents' reasoning."""
    jobs: PositiveInt = 1
    engine: Literal["auto", "vllm", "torch"] = "auto"
    constrain_calls: bool = False
    """Whether the engine holds calls to the tools' schemas: while models are measured, and in attempts."""
    base_steps: PositiveInt | None = None
    """Training steps of the base model made if the recipe has none. None: the full schedule."""

    @model_validator(mode="after")
    def _grammars_need_our_engine(self) -> Self:
        if self.constrain_calls and self.engine == "vllm":
            raise ValueError("--constrain-calls needs --engine torch")
        return self


SPLITS = ("train", "dev", "test")
PAIRS = get_args(Pairwise)
ONLINE = get_args(Online)


class LoopSettings(TrialSettings):
    """Models train on attempts at `train`. Scores on `dev` decide; scores on `test` are only reported."""

    turns: PositiveInt
    train: list[str] = Field(min_length=1)
    test: list[str]
    teacher: str
    teacher_model: str | None = None
    teacher_options: list[str] = []
    """Agent options of the teacher, KEY=VALUE."""
    min_partial: float = Field(default=0.5, ge=0, le=1)
    attempts: PositiveInt = 2
    """The model's attempts per training task, from the second turn on."""
    temperature: float = Field(default=0.8, gt=0)
    patience: PositiveInt = 2
    """The loop ends after this many turns in a row without promotion."""
    seed: int = 0
    algorithm: Algorithm = "sft"
    """Of the turns after the first, which imitates the teacher."""
    margin: float = Field(default=0.3, gt=0, le=1)
    """Least difference between the grades of a pair."""
    rl_steps: PositiveInt = 20
    """Policy updates of a turn that learns online."""
    host: str = "127.0.0.1"
    """Address of this machine at which the model that is measured is served."""
    record_options: list[str] = []
    """Other arguments of `mcp-bench record`, for all recordings."""

    @model_validator(mode="after")
    def _pairs_need_two(self) -> Self:
        if self.algorithm in PAIRS and self.attempts < 2:
            raise ValueError(f"{self.algorithm} compares attempts at the same task: use --attempts 2 or more")
        return self


def as_given(choices: Mapping[str, Any]) -> dict[str, list[str]]:
    """Return what stands for the tasks of each split until they are built, which takes long for many.

    So everything else is checked first.

    Raises:
        WrongUseError: an option has neither a number of tasks nor a readable file of ids.
    """
    for split in SPLITS:
        listed(choices[split], f"--{split}")
    return {split: [str(choices[split])] for split in SPLITS}


def listed(wanted: str | int | Path | Sequence[str], option: str) -> list[str] | None:
    """Return the ids that an option names, as `task_ids` takes them; None if it has a number.

    Raises:
        WrongUseError: it has neither a number nor a readable file.
    """
    if not isinstance(wanted, str | int | Path):
        return list(wanted)
    if str(wanted).isdecimal():
        return None
    try:
        return Path(str(wanted)).read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUseError(
            f"{option} {wanted}: neither a number of tasks nor a readable file of ids ({error})"
        ) from error


def task_ids(
    benchmark: str,
    split: str,
    wanted: str | int | Path | Sequence[str],
    named: Sequence[str] = (),
    *,
    option: str | None = None,
) -> list[str]:
    """Return the ids of tasks of a split, each once.

    Args:
        benchmark: name of the benchmark.
        split: train, dev or test.
        wanted: a number (the first tasks of the split), a file with one id per line, or the ids.
        named: only tasks with one of these ids, or whose id begins with it and a dot. Empty: all.
        option: the one that `wanted` was given to, for messages. Default: that of the split.

    Raises:
        WrongUseError: `wanted` is neither, a task is of another split, or there are no tasks (allowed
            for `test`).
        UnknownNameError: the benchmark or a task is unknown.
    """
    from mcp_bench.servers.registry import load

    found: Benchmark = load("benchmark", benchmark)
    option = option or f"--{split}"
    ids = listed(wanted, option)
    if ids is None:
        names = _first(found, split, int(str(wanted)), named)
    else:
        place = str(wanted) if isinstance(wanted, str | Path) else "the list"
        names = [*_among(_checked(found, split, ids, place), named)]
    if not names and (split != "test" or (named and str(wanted) != "0")):
        of = f" of {', '.join(named)}" if named else ""
        raise WrongUseError(f"{option} {wanted} selects no task{of}")
    return names


def _first(benchmark: Benchmark, split: str, number: int, named: Sequence[str]) -> list[str]:
    if not number:
        return []
    if not named:
        return [task.id for task in benchmark.tasks(split, number)]
    return list(islice(_among((task.id for task in benchmark.tasks(split)), named), number))


def _among(ids: Iterable[str], named: Sequence[str]) -> Iterator[str]:
    return (
        one for one in ids if not named or any(one == name or one.startswith(f"{name}.") for name in named)
    )


def _checked(benchmark: Benchmark, split: str, names: Sequence[str], place: str) -> list[str]:
    for name in names:
        task = benchmark.task(name)
        if task.split != split:
            raise WrongUseError(f"{place}: the task {name} belongs to {task.split}, not to {split}")
    return list(dict.fromkeys(names))
