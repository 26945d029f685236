"""Load the weights of a base, also those that are stored with fewer bits than they are computed with."""

from __future__ import annotations

from typing import Any

from mcp_bench.trainer.architectures.base_config import is_gguf, place, read_config


def load_weights(base: str, **arguments: Any) -> Any:
    """Return the model of a folder, GGUF file or Hub name; the other arguments are those of transformers.

    Packed weights (gpt-oss: MXFP4) are converted to `dtype`. The model is then saved as what it is now, under
    the names of such weights.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils.quantization_config import Mxfp4Config

    if is_gguf(base) or not read_config(base).get("quantization_config"):
        return AutoModelForCausalLM.from_pretrained(**place(base), **arguments)
    unpacking = Mxfp4Config(dequantize=True)
    model: Any = AutoModelForCausalLM.from_pretrained(
        **place(base), quantization_config=unpacking, **arguments
    )
    model.hf_quantizer = None
    # transformers would undo what it did to the names
    model._weight_conversions = None
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model
