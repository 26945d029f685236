"""Check that a folder has what serving needs: configuration, weights, tokenizer and chat template.

Only files are checked and nothing is loaded, so missing parts are reported before an engine starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.base_weights import INDEX, WHOLE
from mcp_bench.trainer.chat.tool_template import tool_template

ADAPTER = "adapter_config.json"
TOKENIZERS = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "tekken.json")
WEIGHTS = ("*.safetensors", "pytorch_model*.bin")
TEMPLATE, MORE_TEMPLATES = "chat_template.jinja", "additional_chat_templates"
"""A tokenizer's template in a file, and the folder of those with other names."""
SHARDS = (INDEX, "pytorch_model.bin.index.json")


@dataclass(frozen=True)
class Checkpoint:
    """A folder that an engine can load."""

    folder: Path
    model_type: str
    chat_template: str
    weight_bytes: int = 0
    dtype: str | None = None
    """Data type of the weights, from the configuration."""
    greedy: bool = True
    """Whether the generation settings default to greedy decoding."""
    own_template: bool = True
    """Whether `chat_template` is the folder's own."""


def is_adapter(folder: Path) -> bool:
    """Return whether a folder has a LoRA adapter rather than a whole model."""
    return (folder / ADAPTER).is_file()


def read_checkpoint(folder: Path) -> Checkpoint:
    """Check a folder with a whole model and return its facts.

    Raises:
        WrongUseError: a part is missing or cannot be read; the text says where to get it.
    """
    config = read_model(folder)
    size = sum(file.stat().st_size for suffix in WEIGHTS for file in folder.glob(suffix))
    dtype = config.get("dtype", config.get("torch_dtype"))
    settings = folder / "generation_config.json"
    greedy = not (settings.is_file() and read_json(settings).get("do_sample"))
    template = read_chat_template(folder)
    return Checkpoint(folder.resolve(), config["model_type"], template, size, dtype, greedy)


def read_model(folder: Path) -> dict[str, Any]:
    """Check a folder's configuration and weights, and return the configuration.

    Raises:
        WrongUseError: one of them is missing or cannot be read.
    """
    if not folder.is_dir():
        raise WrongUseError(f"no folder {folder}: give a checkpoint's folder, which has a config.json")
    if not (folder / "config.json").is_file():
        raise WrongUseError(f"{folder} has no config.json, so it is not a checkpoint.{_near(folder)}")
    config = read_json(folder / "config.json")
    if not isinstance(config.get("model_type"), str):
        raise WrongUseError(f"{folder / 'config.json'} has no model_type")
    _check_weights(folder)
    return config


def read_chat_template(folder: Path) -> str:
    """Return the chat template saved with a tokenizer; of several, the one for tools, as in training.

    Raises:
        WrongUseError: there is no tokenizer, or it has no template.
    """
    if not any((folder / name).is_file() for name in TOKENIZERS):
        raise WrongUseError(
            f"{folder} has no tokenizer (tokenizer.json): copy the tokenizer files of its base model there"
        )
    config = folder / "tokenizer_config.json"
    template = read_json(config).get("chat_template") if config.is_file() else None
    listed = template if isinstance(template, list) else [{"name": "default", "template": template}]
    named = {str(entry.get("name")): entry.get("template") for entry in listed if isinstance(entry, dict)}
    for file in (folder / TEMPLATE, *(folder / MORE_TEMPLATES).glob("*.jinja")):  # they go first
        if file.is_file():
            named["default" if file.name == TEMPLATE else file.stem] = _read_text(file)
    template = tool_template(named)
    if not isinstance(template, str):
        raise WrongUseError(
            f"the tokenizer in {folder} has no chat template (base models often have none): save the "
            "template that the model was trained with as chat_template.jinja there"
        )
    return template


def _read_text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise WrongUseError(f"cannot read {file}: {error}") from error


def read_json(file: Path) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        WrongUseError: the file cannot be read, or is not a JSON object.
    """
    try:
        document = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise WrongUseError(f"cannot read {file}: {error}") from error
    if not isinstance(document, dict):
        raise WrongUseError(f"{file} is not a JSON object")
    return document


def _check_weights(folder: Path) -> None:
    if (folder / WHOLE).is_file():
        _check_whole([folder / WHOLE])
        return
    for name in SHARDS:
        if (folder / name).is_file():
            index = read_json(folder / name).get("weight_map")
            shards = set(index.values()) if isinstance(index, dict) else set()
            missing = sorted(str(shard) for shard in shards if not (folder / str(shard)).is_file())
            if missing:
                raise WrongUseError(
                    f"{folder} lacks weights listed in {name}: {', '.join(missing[:3])}"
                    + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
                )
            _check_whole(folder / str(shard) for shard in shards)
            return
    files = [file for suffix in WEIGHTS for file in folder.glob(suffix)]
    if not files:
        raise WrongUseError(f"{folder} has no weights (*.safetensors): did the training run finish?")
    _check_whole(files)


def _check_whole(files: Iterable[Path]) -> None:
    """Check that files are as long as their headers say. A copy that was interrupted is not."""
    from safetensors import SafetensorError, safe_open

    for file in files:
        if file.suffix == ".safetensors":
            try:
                with safe_open(file, framework="np"):
                    pass
            except (OSError, SafetensorError) as error:
                raise WrongUseError(f"{file} is damaged ({error}): copy it again") from error


def _near(folder: Path) -> str:
    """Return a hint that lists checkpoints in subfolders, where trainers put them."""
    below = sorted(path.parent.name for path in folder.glob("*/config.json"))
    return f" Checkpoints in it: {', '.join(below[-3:])}" if below else ""
