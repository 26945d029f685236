"""The weights of a base: their files, and loading them, also those that are stored with fewer bits."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.architectures.base_config import is_gguf, place, read_config

WHOLE, INDEX = "model.safetensors", "model.safetensors.index.json"
"""All weights in one file, which transformers takes whatever else is there; and the list of several files."""


def safetensors_files(folder: Path) -> list[Path]:
    """Return the files with the weights of a folder that transformers loads.

    Raises:
        WrongUseError: there are none.
    """
    if (folder / WHOLE).is_file():
        return [folder / WHOLE]
    if (folder / INDEX).is_file():
        names = json.loads((folder / INDEX).read_bytes())["weight_map"].values()
        return [folder / name for name in sorted(set(names))]
    if found := sorted(folder.glob("model*.safetensors")):
        return found
    raise WrongUseError(f"{folder} has no weights in safetensors files ({WHOLE})")


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
