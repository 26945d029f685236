"""An improvement task as a folder: `task.yaml`, the target that is edited, a reference, and a scorer.

my-task/
    task.yaml      what is measured, and how
    README.md      what an agent reads of it
    target/        the files that can be edited; the baseline
    reference/     better files of the same names; the oracle's solution
    scorer.py      data, and what is right: it never leaves the trusted side
    model.py       only for the kind `text`: the model that gets the prompt
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError, field_validator, model_validator

from mcp_bench.servers.base_model import Model
from mcp_bench.servers.errors import WrongUseError, suggestion
from mcp_bench.servers.needs import Role
from mcp_bench.servers.yaml_file import YamlFile, read_yaml

FILE = "task.yaml"
KindName = Literal["call", "codec", "fit_predict", "lockstep", "sql", "text"]
SCORERS: Mapping[KindName, tuple[str, ...]] = {
    "call": ("question",),
    "codec": ("files",),
    "fit_predict": ("data", "loss"),
    "lockstep": ("texts",),
    "sql": ("data", "question"),
    "text": ("cases", "loss"),
}
"""What a scorer must have, by the kind of the experiment."""
FEWEST_PAIRS = 6
"""From so many on, there is an interval of a median with 95 % (`estimate.py`)."""
MODEL = "model.py"
INPUT = "{input}"
"""In a prompt: where the input of a case stands."""


class Experiment(Model):
    """How a candidate runs."""

    kind: KindName
    function: str = "solve"
    """Of the target's first file, for the kinds `call` and `fit_predict`."""
    seconds: PositiveFloat = 60
    """Processor seconds that one measurement of one candidate can take: against hanging, not a measure. A
    candidate that sleeps is ended after ten times as long, by the wall clock, without what it waited for a
    processor."""
    load_seconds: PositiveFloat = 30
    """The same for loading it."""
    fit_seconds: PositiveFloat = 10
    """Processor seconds that `lockstep` gives to `fit`."""
    memory_mib: PositiveInt = 1024
    processes: bool = False
    """Whether a candidate can start processes and threads."""
    whole: bool = False
    """For clocks: count a process from its start, and warm nothing up. For training, which could otherwise
    begin while the program loads."""
    gpu: bool = False
    """For `call`: the sandbox has the machine's GPUs. The clock is the wall's, since no clock of a processor
    sees what a GPU does, and no process of a candidate is left while another one is timed."""
    packages: tuple[str, ...] = ()
    """Distributions that a candidate can import, as installed in the benchmark's Python."""
    role: Role = "user"
    """For `text` without a `model.py`: the operator's model that gets the prompt (`record --user-model`)."""

    @model_validator(mode="after")
    def _whole(self) -> Experiment:
        if self.gpu and not (self.kind == "call" and self.processes):
            raise ValueError(
                "gpu: true needs kind: call and processes: true, since its driver starts threads"
            )
        return self


class Metric(Model):
    """What is measured. A smaller value is better with `minimize`."""

    name: str
    unit: str = ""
    direction: Literal["minimize", "maximize"] = "minimize"
    scale: Literal["log", "linear"] = "linear"
    """How progress is counted from the baseline to the reference: by ratios or by differences."""
    mean: Literal["mean", "rms"] = "mean"
    """How the values of single items make the metric. Clocks compare pair by pair instead."""
    pairs: tuple[PositiveInt, PositiveInt] = (9, 25)
    """For clocks: the least and the greatest number of inputs."""
    stop_at: PositiveFloat = 0.05
    """For clocks: half the width of the interval of a log-ratio at which no more inputs are drawn."""
    min_gain: PositiveFloat = 0.02
    """The relative gain over the baseline that counts."""

    @field_validator("pairs")
    @classmethod
    def _enough(cls, pairs: tuple[int, int]) -> tuple[int, int]:
        least, most = pairs
        if least < FEWEST_PAIRS:
            raise ValueError(f"an interval with 95 % needs at least {FEWEST_PAIRS} inputs, not {least}")
        if most < least:
            raise ValueError(f"the greatest number of inputs is below the least one: {most} is below {least}")
        return pairs


class Budget(Model):
    runs: PositiveInt = 30
    seconds: PositiveInt = 1800
    """For the whole attempt."""
    processor_seconds: PositiveFloat | None = None
    """For all runs together, of the processors, by the agent's programs alone."""


class Definition(Model):
    """The content of `task.yaml`."""

    name: str = Field(pattern=r"^[a-z][a-z0-9-]*$")
    family: str
    """Tasks of one family teach the same; `test` has families of its own."""
    summary: str
    splits: dict[Literal["train", "dev", "test"], PositiveInt]
    """By split, how many variants it has."""
    target: tuple[str, ...] = Field(min_length=1)
    """Files in `target/` that can be edited, the one that is loaded first."""
    readonly: tuple[str, ...] = ()
    """Files in `target/` that can be read only."""
    max_bytes: PositiveInt = 60_000
    """For the edited files together."""
    experiment: Experiment
    metric: Metric
    tolerance: float = Field(default=0.0, ge=0)
    """For `call`: how far a number of an answer can be from the baseline's, absolute and relative."""
    budget: Budget = Budget()
    share: Literal["attempt", "home"] = "attempt"
    """Who adds to the samples of a search. `home`: all attempts of a recording home; those that run the same
    program on the same variant share what was measured."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """For the scorer."""


@dataclass(frozen=True)
class ImproveTask:
    """A task, loaded from its folder."""

    folder: Path
    definition: Definition
    readme: str
    baseline: Mapping[str, str]
    reference: Mapping[str, str]
    readonly: Mapping[str, str]
    model: str = ""
    """The program that answers prompts; empty: the operator's model does."""

    @cached_property
    def scorer(self) -> ModuleType:
        """The scorer, loaded from its file.

        Raises:
            WrongUseError: it cannot be loaded.
        """
        path = self.folder / "scorer.py"
        spec = importlib.util.spec_from_file_location(f"improve_scorer_{self.definition.name}", path)
        if spec is None or spec.loader is None or not path.is_file():
            raise WrongUseError(f"{path}: there is no scorer")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module  # a dataclass looks its module up
        try:
            spec.loader.exec_module(module)
        except (Exception, SystemExit) as error:
            del sys.modules[spec.name]
            raise WrongUseError(f"{path}: it cannot be loaded: {type(error).__name__}: {error}") from error
        kind = self.definition.experiment.kind
        if lacking := [name for name in SCORERS[kind] if not hasattr(module, name)]:
            raise WrongUseError(f"{path}: a scorer of the kind {kind} needs {' and '.join(lacking)}")
        return module


def read_task(folder: Path) -> ImproveTask:
    """Read a task's folder.

    Raises:
        WrongUseError: something is missing or wrong; the text names the file, the line and the key.
    """
    file = read_yaml(folder / FILE)
    try:
        definition = Definition.model_validate(file.content)
    except ValidationError as error:
        raise WrongUseError(_words(file, error)) from error
    task = ImproveTask(
        folder=folder,
        definition=definition,
        readme=_text(folder / "README.md"),
        baseline={name: _text(folder / "target" / name) for name in definition.target},
        reference={
            name: _text(folder / place / name)
            for name in definition.target
            for place in ["reference" if (folder / "reference" / name).is_file() else "target"]
        },
        readonly={name: _text(folder / "target" / name) for name in definition.readonly},
        model=_text(folder / MODEL) if (folder / MODEL).is_file() else "",
    )
    if definition.share == "home" and definition.experiment.kind == "text" and not task.model:
        raise WrongUseError(
            f"{file.path}:{file.line(['share'])}: share: home needs a {MODEL}: the operator's model "
            "can be another one in each recording. Remove the key, or write share: attempt"
        )
    if not (folder / "reference").is_dir():
        raise WrongUseError(f"{folder / 'reference'}: a task needs a reference: files better than the target")
    for what, files in (("target", task.baseline), ("reference", task.reference)):
        size = sum(len(text.encode()) for text in files.values())
        if size > definition.max_bytes:
            raise WrongUseError(
                f"{folder / what}: its files have {size} bytes; max_bytes is {definition.max_bytes}"
            )
        if definition.experiment.kind == "text" and INPUT not in files[definition.target[0]]:
            raise WrongUseError(
                f"{folder / what / definition.target[0]}: a prompt needs the place of the input: {INPUT}"
            )
    return task


def _words(file: YamlFile, error: ValidationError) -> str:
    """Return the first error with its line and key."""
    # an unknown key first: a required one is missing where a name has a typing error
    first = min(error.errors(), key=lambda one: one["type"] != "extra_forbidden")
    place = [part for part in first["loc"] if isinstance(part, (str, int))]
    if first["type"] == "extra_forbidden":
        model: type[Model] = Definition
        for part in place[:-1]:
            found = model.model_fields[str(part)].annotation
            model = found if isinstance(found, type) and issubclass(found, Model) else model
        return (
            f"{file.path}:{file.line(place)}: unknown key {file.key(place)}"
            f"{suggestion(str(place[-1]), model.model_fields)}"
        )
    return f"{file.path}:{file.line(place)}: {'.'.join(map(str, place))}: {first['msg']}"


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUseError(f"{path}: cannot be read: {error}") from error
