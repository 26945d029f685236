"""Load the base model: a checkpoint, or random weights of the recipe's architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.recipe import Lora, Recipe


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
    architecture = recipe.model.architecture
    config = AutoConfig.for_model(
        architecture.model_type,
        **architecture.configuration(),
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
    )
    return AutoModelForCausalLM.from_config(config, **kwargs)


def _pretrained(base: str, kwargs: dict[str, Any]) -> Any:
    from transformers import AutoModelForCausalLM

    folder = Path(base)
    if folder.is_dir() and not any(folder.glob("*.safetensors")):
        raise BrokenModelError(f"model.base: {base} has no weights (*.safetensors)")
    try:
        return AutoModelForCausalLM.from_pretrained(base, **kwargs)
    except Exception as error:  # transformers, the Hub client and safetensors raise different types
        raise BrokenModelError(f"model.base: cannot load {base}: {str(error).splitlines()[0]}") from error


def _same_sizes(recipe: Recipe, model: Any) -> None:
    """Check that the model has the recipe's sizes, which plans are computed from."""
    config = model.config.get_text_config()
    for name, wanted in recipe.model.architecture.configuration().items():
        found = getattr(config, name, wanted)
        if found != wanted:
            raise BrokenModelError(
                f"model.architecture.{name} is {wanted}, but {recipe.model.base} has {found}"
            )


def adapter(lora: Lora) -> Any:
    """Return peft's configuration for the adapter."""
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        task_type="CAUSAL_LM",
    )
