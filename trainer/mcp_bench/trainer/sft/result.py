"""What a finished run leaves behind: a folder that a server can load as it is."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mcp_bench.trainer.data import Example
from mcp_bench.trainer.recipe import Generation
from mcp_bench.trainer.templates import Templates


def make_servable(
    model: Any, tokenizer: Any, templates: Templates, stops: Iterable[int], generation: Generation | None
) -> None:
    """Give a model the settings to be asked with, and its tokenizer the template: whatever is saved has them.

    Tokens of the data are made before: the template in training is another one.
    """
    settings = model.generation_config
    settings.eos_token_id = sorted({*_numbers(settings.eos_token_id), tokenizer.eos_token_id, *stops})
    settings.pad_token_id = tokenizer.pad_token_id
    if generation is not None:
        sampling = generation.temperature > 0
        settings.update(do_sample=sampling)
        for name, value in generation.model_dump().items():
            if not sampling:
                setattr(settings, name, None)  # the base's would be refused beside do_sample: false
            elif value is not None:
                setattr(settings, name, value)
    tokenizer.chat_template = templates.serving


def save_result(model: Any, weights: Any, tokenizer: Any, folder: Path) -> None:
    """Write weights (or the adapter), tokenizer, template and generation settings.

    `weights` is the model's state dict, in whole. `folder` is there as a whole or not at all.
    """
    beside = folder.with_name(f".{folder.name}.new")
    shutil.rmtree(beside, ignore_errors=True)
    model.save_pretrained(beside, state_dict=weights)
    model.generation_config.save_pretrained(beside)  # an adapter's folder would have none
    tokenizer.save_pretrained(beside)
    shutil.rmtree(folder, ignore_errors=True)
    beside.rename(folder)


def stop_tokens(examples: Iterable[Example], tokenizer: Any) -> set[int]:
    """Return the tokens by which the assistant's turns end in training: the last special one of each.

    A template's end of turn is not always the tokenizer's end of text, and a server stops at what the
    generation settings name.
    """
    special = set(tokenizer.all_special_ids)
    found = set()
    for example in examples:
        last = None
        pairs = zip(example.tokens, example.trained, strict=True)
        for token, trained in pairs:
            if trained and token in special:
                last = token
            elif not trained and last is not None:
                found.add(last)
                last = None
        if last is not None:
            found.add(last)
    return found


def _numbers(value: int | list[int] | None) -> list[int]:
    return value if isinstance(value, list) else [] if value is None else [value]
