"""Count the parameters of any causal language model on torch's meta device, where weights take no memory."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from mcp_bench.trainer.architectures.architecture import Architecture
from mcp_bench.trainer.architectures.base_config import UnusableBaseError, fault, place
from mcp_bench.trainer.architectures.layers import EXPERTS, FULL, LINEAR, SLIDING, Layer, Matrix, size_of

ROUTERS = ("gate", "router")
STATEFUL = ("linear_attention", "mamba", "conv", "recurrent")
"""Parts of the names of layer types that carry a state along the sequence."""


class Counted(Architecture):
    """Sizes of a type without formula: its layers as found in the model, and what is outside of them."""

    found: tuple[Layer, ...]
    outside: dict[str, int]

    def layers(self) -> list[Layer]:
        return list(self.found)

    def parameters(self) -> dict[str, int]:
        """Return the number of parameters of each part; `outside` are those of no layer."""
        return {**super().parameters(), **self.outside}


def own_config(content: dict[str, Any], base: str) -> Any:
    """Return transformers' configuration, which fills in defaults that a `config.json` omits.

    Raises:
        UnusableBaseError: transformers does not know the type.
    """
    from transformers import AutoConfig, __version__

    try:
        return AutoConfig.from_pretrained(**place(base))
    except Exception as error:  # strict configurations and the Hub's client raise different types
        kind = content["model_type"]
        if "auto_map" in content:
            why = "its repository has code of its own, which is not run"
        elif "does not recognize this architecture" in str(error):
            why = f"transformers {__version__} does not know it: a newer version may"
        else:
            why = fault(base, error)
        raise UnusableBaseError(f"model.base: {base} is of type {kind!r}: {why}") from error


def gguf_config(file: Path) -> Any:
    """Return transformers' configuration for a GGUF file.

    Raises:
        UnusableBaseError: the file is broken, or its architecture is not known to transformers.
    """
    from importlib.util import find_spec

    from transformers import AutoConfig

    if find_spec("gguf") is None:
        raise UnusableBaseError(f"model.base: reading {file} needs the Python package gguf: pip install gguf")
    try:
        return AutoConfig.from_pretrained(**place(str(file)))
    except Exception as error:  # gguf and transformers raise different types
        raise UnusableBaseError(
            f"model.base: cannot read {file}: {fault(str(file), error)}. Use a GGUF file of an architecture "
            "that transformers converts (llama, mistral, qwen2, qwen3, gemma3 and others), or the original"
        ) from error


def count(config: Any, base: str) -> Counted:
    """Build the model on the meta device and count its parameters.

    Args:
        config: transformers' configuration.
        base: name of the base, for messages.

    Raises:
        UnusableBaseError: there is no causal language model of this type and of these sizes.
    """
    import torch
    from transformers import AutoModelForCausalLM

    try:
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(config, trust_remote_code=False)
    except Exception as error:  # models check their configurations with different types
        raise UnusableBaseError(
            f"model.base: {base} is of type {config.model_type!r}, which is no causal language model that "
            f"transformers can make: {fault(base, error)}"
        ) from error
    try:
        return _counted(config, model, base)
    except ValidationError as error:  # transformers makes a model of no layers, too
        wrong = "; ".join(f"{one['loc'][0]} is {one['input']}" for one in error.errors())
        raise UnusableBaseError(f"model.base: {base} has sizes that no model has: {wrong}") from error


def _counted(config: Any, model: Any, base: str) -> Counted:
    text = config.get_text_config()
    tied, head = bool(getattr(text, "tie_word_embeddings", False)), model.get_output_embeddings()
    layers = _decoder_layers(model, int(text.num_hidden_layers))
    kinds = getattr(text, "layer_types", None) or [None] * len(layers)
    found = tuple(_layer(layer, kind) for layer, kind in zip(layers, kinds, strict=False))
    heads = _number(text, "num_attention_heads", 1)
    hidden = _number(text, "hidden_size", 1)
    keys = _number(text, "num_key_value_heads", heads)
    size = Counted(
        source=f"counted in the model of {base}",
        model_type=config.model_type,
        vocab_size=model.get_input_embeddings().weight.shape[0],
        hidden_size=hidden,
        intermediate_size=_number(text, "intermediate_size", 4 * hidden),
        num_hidden_layers=len(layers),
        num_attention_heads=heads,
        num_key_value_heads=keys if heads % keys == 0 else heads,
        head_dim=_number(text, "head_dim", max(1, hidden // heads)),
        max_position_embeddings=_number(text, "max_position_embeddings", 2**31),
        tie_word_embeddings=tied or head is None,
        experts=max((matrix.copies for layer in found for matrix in layer.experts), default=0),
        num_experts_per_tok=_number(text, "num_experts_per_tok", 1),
        moe_intermediate_size=getattr(text, "moe_intermediate_size", None),
        found=found,
        outside={},
    )
    rest = _total(model.parameters()) - sum(size.parameters().values())
    return size.model_copy(update={"outside": {"outside": rest} if rest else {}})


def _decoder_layers(model: Any, count: int) -> list[Any]:
    """Return the text model's layers: the first list of modules as long as the configuration says."""
    from torch.nn import ModuleList

    lists = [module for module in model.modules() if isinstance(module, ModuleList)]
    return next((list(one) for one in lists if len(one) == count), [model])


def _layer(layer: Any, kind: str | None) -> Layer:
    from torch import nn
    from transformers.pytorch_utils import Conv1D

    attention: list[Matrix] = []
    mlp: list[Matrix] = []
    experts: list[Matrix] = []
    for name, module in layer.named_modules():
        last = name.rsplit(".", 1)[-1]
        if last in ROUTERS or not isinstance(module, nn.Linear | Conv1D):
            continue
        rows, columns = module.weight.shape
        shape = (rows, columns) if isinstance(module, Conv1D) else (columns, rows)
        (attention if _part(name) == "attention" else mlp).append(Matrix(last, *shape))
    for name, weight in layer.named_parameters():
        if weight.ndim == 3 and _part(name) == "experts":
            copies, rows, columns = weight.shape
            last = name.rpartition(".")[2]
            experts.append(Matrix(f"{EXPERTS}{last}", rows, columns, copies))
    counts = {"norms": 0, "attention": 0, "experts": 0, "mlp": 0}
    for name, weight in layer.named_parameters():
        counts[_part(name)] += weight.numel()
    stateful = any(word in (kind or "") for word in STATEFUL) or (
        kind is None and any(isinstance(module, nn.Conv1d) for module in layer.modules())
    )
    return Layer(
        LINEAR if stateful else SLIDING if kind == SLIDING else FULL,
        tuple(attention),
        tuple(mlp),
        tuple(experts),
        attention_rest=counts["attention"] - size_of(attention),
        mlp_rest=counts["mlp"] - size_of(mlp),
        experts_rest=counts["experts"] - size_of(experts),
        norms=counts["norms"],
    )


def _part(name: str) -> str:
    """Return the part of a layer that a parameter belongs to, by its path."""
    path = name.lower().split(".")
    if "norm" in name:
        return "norms"
    if any(word in name.lower() for word in ("attn", "attention", "mixer", "mamba", "conv")):
        return "attention"
    return "experts" if "experts" in path or any(word in path for word in ROUTERS) else "mlp"


def _total(weights: Iterable[Any]) -> int:
    return sum({id(weight): weight.numel() for weight in weights}.values())


def _number(config: Any, name: str, default: int) -> int:
    """Return a number of a configuration; the largest if it has one for each layer."""
    value = getattr(config, name, None)
    if isinstance(value, list | tuple):
        return int(max(value, default=default))
    return int(value) if value else default
