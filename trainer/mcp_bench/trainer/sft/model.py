"""The model to start from: a checkpoint, or random weights of the recipe's architecture."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.recipe import Lora, Recipe


class BrokenModelError(WrongUseError):
    """The base cannot be loaded, or is another model than the recipe says."""


def load_model(recipe: Recipe, tokenizer: Any) -> Any:
    """Return the model to train, a `transformers` PreTrainedModel in the recipe's precision.

    Weights that an adapter is trained beside are in the precision of the computation: they stay as they are.

    Raises:
        BrokenModelError: there is no such base, it has no weights, its sizes are not the recipe's, or its
            embedding has fewer rows than the tokenizer has tokens.
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
            f"the tokenizer has {len(tokenizer)} tokens, the model's embedding {rows}: they do not belong "
            "together. Name the right one in model.tokenizer, or raise architecture.vocab_size"
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
    except Exception as error:  # transformers, the hub client and safetensors each raise their own
        raise BrokenModelError(f"model.base: cannot load {base}: {str(error).splitlines()[0]}") from error


def _same_sizes(recipe: Recipe, model: Any) -> None:
    """A plan is worked out from the recipe's numbers: another model would make it untrue."""
    config = model.config.get_text_config()
    for name, wanted in recipe.model.architecture.configuration().items():
        found = getattr(config, name, wanted)
        if found != wanted:
            raise BrokenModelError(
                f"model.architecture.{name} is {wanted}, but {recipe.model.base} has {found}"
            )


def adapter(lora: Lora) -> Any:
    """Return peft's configuration of an adapter."""
    from peft import LoraConfig

    return LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets),
        task_type="CAUSAL_LM",
    )
