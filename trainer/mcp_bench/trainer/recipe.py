"""Recipes: small YAML files that describe a training run.

A recipe is selected by built-in name or by path. Unknown keys are errors, since a misspelt setting that is
silently ignored wastes a training run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PositiveFloat,
    PositiveInt,
    ValidationError,
    model_validator,
)

from mcp_bench.servers.errors import UnknownNameError, WrongUseError, suggestion
from mcp_bench.servers.yaml_file import Place, read_yaml
from mcp_bench.trainer.architectures.architecture import Architecture
from mcp_bench.trainer.bases import located
from mcp_bench.trainer.preference.settings import Preference
from mcp_bench.trainer.recipe_section import Finite, FiniteOrZero, Section
from mcp_bench.trainer.rl.settings import RL

Attention = Literal[
    "eager",
    "sdpa",
    "flash_attention_2",
    "kernels-community/flash-attn2",
    "kernels-community/flash-attn3",
    "kernels-community/vllm-flash-attn3",
]
KERNELS: dict[Attention, str] = {
    "flash_attention_2": "flash_attn",
    "kernels-community/flash-attn2": "kernels",
    "kernels-community/flash-attn3": "kernels",
    "kernels-community/vllm-flash-attn3": "kernels",
}
"""FlashAttention variants and the module that each needs: the kernel, or the package that downloads it."""


def _word(value: object) -> object:
    """Undo YAML 1.1's conversion of `on` and `off` to booleans."""
    return {True: "on", False: "off"}[value] if isinstance(value, bool) else value


Base = Annotated[str, AfterValidator(located)]
"""A folder or Hub name. A relative path becomes absolute, and the name of a fetched base its folder: adapters
are stored with it."""


class ModelSource(Section):
    """The base model: a folder, a fetched base, a Hub name, or `null` for random weights."""

    base: Base | None
    """Folder, fetched base, Hub name, or GGUF file. `null`: random weights."""
    tokenizer: Base | None = None
    """Folder or Hub name of the tokenizer. Default: the base model's."""
    chat_template: Base | None = None
    """File with the training template. Default: the tokenizer's, or TRL's training variant of it."""
    serve_with: Literal["training", "stock"] = "training"
    """Template for serving, saved with the checkpoint: the training template, or the tokenizer's."""
    thinking: bool | None = None
    """Value of `enable_thinking` for the template. Default: not set."""
    architecture: Architecture | None = None
    """Sizes, named as in transformers' configurations. Default: those in the base's `config.json`. Needed for
    random weights, and for plans without the base."""

    @model_validator(mode="after")
    def _random_weights_need_sizes(self) -> Self:
        if self.base is None and self.architecture is None:
            raise ValueError("random weights (base: null) need an architecture: name a base, or give sizes")
        return self


class Lora(Section):
    """Low-rank adapters on frozen weights (https://arxiv.org/abs/2106.09685)."""

    rank: PositiveInt = 32
    """Inner size of the adapters. Without a section `lora`, all weights are trained."""
    alpha: PositiveInt = 64
    """What the adapters add is multiplied by alpha/rank."""
    dropout: float = Field(default=0.0, ge=0, lt=1)
    """Share of the inputs of the adapters that is dropped at random."""
    targets: list[str] | None = Field(default=None, min_length=1)
    """Projections to adapt. Default: those of attention and MLP, or of attention and experts."""


class Data(Section):
    max_length: PositiveInt
    """Maximum tokens of a row. Longer rows are dropped and counted, never cut."""
    packing: bool = False
    """Put several short rows into one sequence."""
    group_by_length: bool = False
    """Batch rows of similar length: less padding, less random batches."""
    shared_prefix: bool = False
    """Batch rows that begin alike, such as those with the same tools, and compute the beginning once."""
    failed_calls: Literal["train", "mask"] = "train"
    """`mask` takes no loss from turns whose calls all failed: the model reads them, and learns the repair."""
    tools: Literal["all", "shuffled", "sampled"] = "all"
    """`shuffled` puts them in random order; `sampled` leaves out a random number that a row does not call."""
    masked_names: float = Field(default=0.0, ge=0, le=1)
    """The share of rows whose tools get random names, so that what a tool does has to be read."""
    masked_values: float = Field(default=0.0, ge=0, le=1)
    """The share of rows in which names that calls repeat are random words, so that they have to be copied."""


class Generation(Section):
    """Generation settings saved with the trained model. Default: those of the base."""

    temperature: FiniteOrZero = 0.0
    """0 is greedy decoding. Without a section `generation`, the base's settings are kept."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Keep the fewest most likely tokens whose probabilities sum to this."""
    top_k: PositiveInt | None = None
    """Keep so many of the most likely tokens."""

    @model_validator(mode="after")
    def _greedy_has_no_sampling_settings(self) -> Self:
        if self.temperature == 0 and (self.top_p or self.top_k):
            raise ValueError("top_p and top_k have no effect at temperature 0: set a temperature above 0")
        return self


class Training(Section):
    epochs: Finite = 1.0
    """Passes over all rows."""
    sequences_per_device: PositiveInt = 1
    """Sequences in a micro-batch of one device."""
    accumulate: PositiveInt = 1
    """Micro-batches per step (gradient accumulation)."""
    optimizer: Literal["adamw", "muon"] = "adamw"
    """`muon` trains the matrices inside the layers with Muon and everything else with AdamW."""
    learning_rate: Finite
    """Highest rate, after the warm-up; with `muon`, that of AdamW."""
    muon_learning_rate: Finite = 0.02
    """Highest rate of the matrices that Muon trains."""
    scheduler: Literal["constant", "cosine", "linear"] = "cosine"
    """How the rate falls after the warm-up."""
    warmup_ratio: float = Field(default=0.03, ge=0, lt=1)
    """Share of the steps in which the rate rises, from 0 in the first one. A single step has all of it."""
    weight_decay: FiniteOrZero = 0.0
    """Of the optimizer: how strongly weights are drawn to 0."""
    max_grad_norm: PositiveFloat = 1.0
    """Longer gradients are scaled to this norm."""
    precision: Literal["fp32", "bf16-mixed", "bf16"] = "bf16-mixed"
    """`bf16-mixed` computes in 16 bits and stores trained weights in 32. `bf16` stores them in 16 bits too,
    except adapters and weights sharded by FSDP2; it is refused where its rounding loses the small updates, in
    learning from reward, and from pairs without an adapter."""
    attention: Attention = "sdpa"
    """Implementation of attention, by its name in transformers."""
    checkpointing: Annotated[Literal["off", "on", "offload"], BeforeValidator(_word)] = "on"
    """Activation checkpointing: keep only each layer's input, on the device or in host memory (`offload`)."""
    seed: int = Field(default=0, ge=0, lt=2**32)
    """Of the order of rows, of random weights, and of all else that is drawn."""
    save_every: PositiveInt = 100
    """Steps between checkpoints."""
    eval_every: PositiveInt | None = None
    """Steps between looks at the rows of `--eval-data`. Default: `save_every`."""


class Hardware(Section):
    device: Literal["cpu", "cuda"]
    """Where the model is trained."""
    devices: PositiveInt = 1
    """Number of devices, a process for each."""
    devices_per_node: PositiveInt = 8
    """Number of devices of one machine."""
    memory_gib: Finite
    """Memory of one device."""
    sharding: Literal["none", "fsdp2"] = "none"
    """`fsdp2` divides weights, gradients and states of the optimizer among the devices."""
    context_parallel: PositiveInt = 1
    """Number of devices that share one sequence."""


class Recipe(Section):
    summary: str
    """What the recipe is for, in one line."""
    model: ModelSource
    lora: Lora | None = None
    data: Data
    training: Training
    generation: Generation | None = None
    hardware: Hardware
    preference: Preference = Preference()
    """Learning from pairs of attempts (`mcp-bench train dpo`, `train kto`)."""
    rl: RL = RL()
    """Learning from reward (`mcp-bench train rl`)."""

    @cached_property
    def architecture(self) -> Architecture:
        """The recipe's sizes, or those of its base.

        Raises:
            WrongUseError: the base's configuration cannot be read.
        """
        if self.model.architecture is not None:
            return self.model.architecture
        from mcp_bench.trainer.architectures.base_sizes import read_architecture

        assert self.model.base is not None  # noqa: S101 - ModelSource checks it
        return read_architecture(self.model.base)

    @property
    def lora_targets(self) -> list[str]:
        """Names of the adapted projections; none without `lora`."""
        if self.lora is None:
            return []
        return self.architecture.default_targets() if self.lora.targets is None else self.lora.targets

    @property
    def replicas(self) -> int:
        """Number of data-parallel replicas."""
        return max(1, self.hardware.devices // self.hardware.context_parallel)

    @property
    def sequences_per_step(self) -> int:
        return self.replicas * self.training.sequences_per_device * self.training.accumulate


def recipe_text(recipe: Recipe) -> str:
    """Return a recipe as YAML with absolute paths, independent of the working directory."""
    content = recipe.model_dump(mode="json", exclude_unset=True)
    for key in ("base", "tokenizer", "chat_template"):
        if name := content["model"].get(key):
            content["model"][key] = located(name)
    return yaml.safe_dump(content, sort_keys=False)


def shipped() -> dict[str, Path]:
    """Return the built-in recipes: name to file, in alphabetical order."""
    folder = Path(str(resources.files("mcp_bench.trainer"))) / "recipes"
    return {path.stem: path for path in sorted(folder.glob("*.yaml"), key=lambda path: path.stem)}


def stem(name: str) -> str:
    """Return the name of a recipe given by name or path. Names of built-in recipes contain dots."""
    path = Path(name)
    return path.stem if path.suffix in (".yaml", ".yml") else path.name


def load_recipe(name: str, overrides: Iterable[str] = ()) -> tuple[str, Recipe]:
    """Load a recipe by built-in name or path, apply `key.key=value` overrides, and return name and recipe.

    Raises:
        UnknownNameError: there is no such recipe.
        WrongUseError: the file or an override is invalid; the text names file, line, key and fault.
    """
    overrides, known = list(overrides), shipped()
    path = known.get(name, Path(name))
    if not path.is_file():
        if path.suffix in {".yaml", ".yml"}:
            raise WrongUseError(f"no recipe file {name!r}{suggestion(path.stem, known)}")
        raise UnknownNameError("recipe", name, known, see="mcp-bench train recipes")
    file = read_yaml(path, f" of {', '.join(Recipe.model_fields)}")
    for override in overrides:
        _override(file.content, override)
    try:
        return path.stem, Recipe.model_validate(file.content)
    except ValidationError as error:
        if overrides:  # the file may have no line for it
            lines = [f"{path} with --set:", *(f"  {fault}" for _, fault in _faults(error))]
        else:
            lines = [f"{path}:{file.line(place)}: {fault}" for place, fault in _faults(error)]
        raise WrongUseError("\n".join(lines)) from error


def _override(content: dict[str, Any], override: str) -> None:
    key, equals, text = override.partition("=")
    if not equals or not key:
        raise WrongUseError(f"--set {override}: use key=value, such as training.learning_rate=1e-5")
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise WrongUseError(f"--set {override}: the value is not YAML: {error}") from error
    *parents, last = key.split(".")
    inner: Any = content
    for parent in parents:
        if inner.get(parent) is None:
            inner[parent] = {}
        inner = inner[parent]
        if not isinstance(inner, dict):
            raise WrongUseError(f"--set {override}: {parent!r} is a value and has no keys")
    inner[last] = value


def _faults(error: ValidationError) -> Iterator[tuple[Place, str]]:
    """Yield the place and the text of each fault."""
    for fault in error.errors(include_url=False):
        place = [str(part) for part in fault["loc"]]
        key = ".".join(place) or "the recipe"
        if fault["type"] == "extra_forbidden":
            text = f"unknown key{suggestion(place[-1], _keys_beside(place))}"
        elif fault["type"] == "missing":
            text = "missing"
        else:
            given = "" if isinstance(fault["input"], Mapping) else f" (is {fault['input']!r})"
            text = f"{fault['msg']}{given}"
        yield fault["loc"], f"{key}: {text}"


def _keys_beside(place: list[str]) -> Iterable[str]:
    """Return the valid keys of the section that contains the unknown key."""
    section: Any = Recipe
    for part in place[:-1]:
        annotation = section.model_fields[part].annotation
        options = [annotation, *getattr(annotation, "__args__", ())]
        section = next(o for o in options if isinstance(o, type) and issubclass(o, BaseModel))
    fields: dict[str, Any] = section.model_fields
    return fields
