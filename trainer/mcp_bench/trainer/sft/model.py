"""The model of a run: load the base model, and save the result as a folder that is ready to serve."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.architectures.base_config import GGUF, fault
from mcp_bench.trainer.architectures.layers import EXPERTS
from mcp_bench.trainer.base_weights import load_weights
from mcp_bench.trainer.data import Example
from mcp_bench.trainer.recipe import Generation, Recipe
from mcp_bench.trainer.templates import Templates, special_tokens


class BrokenModelError(WrongUseError):
    """The base model cannot be loaded or does not match the recipe."""


def load_model(recipe: Recipe, tokenizer: Any) -> Any:
    """Return the model to train, a `transformers` PreTrainedModel in the recipe's precision.

    With an adapter, the frozen weights are in compute precision.

    Raises:
        BrokenModelError: the base cannot be loaded, has no weights, differs in size from the recipe, or
            has a smaller embedding than the tokenizer.
    """
    import torch

    training, frozen = recipe.training, recipe.lora is not None
    in_16_bits = training.precision == "bf16" or (frozen and training.precision == "bf16-mixed")
    kwargs = {
        "dtype": torch.bfloat16 if in_16_bits else torch.float32,
        "attn_implementation": training.attention,
    }
    if recipe.model.base is None:
        model = _random(recipe, tokenizer, kwargs)
    else:
        model = _pretrained(recipe.model.base, kwargs)
        _same_sizes(recipe, model)
    rows = model.get_input_embeddings().num_embeddings
    if len(tokenizer) > rows:
        raise BrokenModelError(
            f"the tokenizer has {len(tokenizer)} tokens, but the model's embedding only {rows}. Set "
            "model.tokenizer to the model's tokenizer, or raise model.architecture.vocab_size"
        )
    return model


def _random(recipe: Recipe, tokenizer: Any, kwargs: dict[str, Any]) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM, set_seed

    set_seed(recipe.training.seed)
    architecture = recipe.architecture
    config = AutoConfig.for_model(
        architecture.model_type,
        **architecture.configuration(),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return AutoModelForCausalLM.from_config(config, **kwargs)


def check_weights(base: str) -> None:
    """Check, without loading, that a folder has weights in a supported format.

    Raises:
        BrokenModelError: it has none.
    """
    folder = Path(base)
    if not folder.is_dir() or any(folder.glob("*.safetensors")):
        return
    others = sorted(path.name for path in folder.iterdir() if path.suffix in (".bin", ".pth", ".pt", GGUF))
    advice = ""
    if others:
        advice = f", but {', '.join(others[:3])}"
        if any(name.endswith(GGUF) for name in others):
            advice += f": a GGUF file is named itself, as in model.base={folder / others[0]}"
        else:
            advice += ": convert them with transformers (from_pretrained, then save_pretrained)"
    raise BrokenModelError(f"model.base: {base} has no weights (*.safetensors){advice}")


def _pretrained(base: str, kwargs: dict[str, Any]) -> Any:
    check_weights(base)
    try:
        return load_weights(base, **kwargs)
    except Exception as error:  # transformers, the Hub client and safetensors raise different types
        raise BrokenModelError(f"model.base: cannot load {base}: {fault(base, error)}") from error


def layer_classes(model: Any) -> list[str]:
    """Return the names of the model's layer classes, as transformers declares them for splitting a model.

    A class of another part, such as a vision tower that was not loaded, is left out.
    """
    there = {type(module).__name__ for module in model.modules()}
    return sorted(there & set(model._no_split_modules or ()))


def _same_sizes(recipe: Recipe, model: Any) -> None:
    """Check that the model has the sizes typed into the recipe, which plans are computed from."""
    typed = recipe.model.architecture
    if typed is None:
        return
    config = model.config.get_text_config()
    for name, wanted in typed.configuration().items():
        found = getattr(config, name, wanted)
        if found != wanted:
            raise BrokenModelError(
                f"model.architecture.{name} is {wanted}, but {recipe.model.base} has {found}. Leave out "
                "model.architecture: the sizes are then read from the base"
            )


def adapter(recipe: Recipe) -> Any:
    """Return peft's configuration for the recipe's adapter."""
    from peft import LoraConfig

    lora, targets = recipe.lora, recipe.lora_targets
    assert lora is not None  # noqa: S101 - the caller checks it
    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=[name for name in targets if not name.startswith(EXPERTS)],
        target_parameters=[name for name in targets if name.startswith(EXPERTS)] or None,
        task_type="CAUSAL_LM",
    )


def make_servable(
    model: Any, tokenizer: Any, templates: Templates, stops: Iterable[int], generation: Generation | None
) -> None:
    """Set the model's generation settings and the tokenizer's serving template, which are saved with them.

    Tokenise the data first, since training uses another template.
    """
    settings = model.generation_config
    settings.eos_token_id = sorted({*_numbers(settings.eos_token_id), tokenizer.eos_token_id, *stops})
    settings.pad_token_id = tokenizer.pad_token_id
    set_generation(settings, generation)
    tokenizer.chat_template = templates.serving


def set_generation(settings: Any, generation: Generation | None) -> None:
    """Change a model's generation settings to those of a recipe, if it has some."""
    if generation is None:
        return
    sampling = generation.temperature > 0
    settings.update(do_sample=sampling)
    for name, value in generation.model_dump().items():
        if not sampling:
            setattr(settings, name, None)  # transformers refuses the base's value with do_sample: false
        elif value is not None:
            setattr(settings, name, value)


def save_result(model: Any, weights: Any, tokenizer: Any, folder: Path) -> None:
    """Write weights (or the adapter), tokenizer, template and generation settings.

    `weights` is the complete state dict. The folder is renamed into place, so it is always complete.
    """
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    model.save_pretrained(beside, state_dict=weights)
    model.generation_config.save_pretrained(beside)  # not saved with adapters otherwise
    tokenizer.save_pretrained(beside)
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)


def stop_tokens(examples: Iterable[Example], tokenizer: Any) -> set[int]:
    """Return the special tokens that end assistant turns in training.

    Servers stop at the tokens in the generation settings. A template's end of turn is not always the
    tokenizer's end-of-text token. Left out is a token that also occurs within turns, as gpt-oss's `<|end|>`
    does after a thought: an answer would end there. Unless it is the only one.
    """
    special, blank = set(special_tokens(tokenizer)), set[int]()
    ends, inside = set[int](), set[int]()
    for example in examples:
        for turn in re.finditer(rb"[^\0]+", example.trained):
            tokens = example.tokens[turn.start() : turn.end()]
            while tokens and _is_blank(tokens[-1], tokenizer, blank):
                tokens.pop()
            ends |= special.intersection(tokens[-1:])
            inside |= special.intersection(tokens[:-1])
    return (ends - inside) or ends


def _is_blank(token: int, tokenizer: Any, known: set[int]) -> bool:
    """Return whether a token is only white space, as some templates have after the end of a turn."""
    if token not in known and not tokenizer.decode([token], skip_special_tokens=False).strip():
        known.add(token)
    return token in known


def _numbers(value: int | list[int] | None) -> list[int]:
    return value if isinstance(value, list) else [] if value is None else [value]
