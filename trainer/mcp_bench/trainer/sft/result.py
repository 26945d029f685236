"""Write the result of a finished run: a folder that is ready to serve."""

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
    """Set the model's generation settings and the tokenizer's serving template, which are saved with them.

    Tokenise the data first, since training uses another template.
    """
    settings = model.generation_config
    settings.eos_token_id = sorted({*_numbers(settings.eos_token_id), tokenizer.eos_token_id, *stops})
    settings.pad_token_id = tokenizer.pad_token_id
    if generation is not None:
        sampling = generation.temperature > 0
        settings.update(do_sample=sampling)
        for name, value in generation.model_dump().items():
            if not sampling:
                setattr(settings, name, None)  # transformers refuses the base's value with do_sample: false
            elif value is not None:
                setattr(settings, name, value)
    tokenizer.chat_template = templates.serving


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
    """Return the tokens that end assistant turns in training: the last special token of each turn.

    Servers stop at the tokens in the generation settings. A template's end of turn is not always the
    tokenizer's end-of-text token.
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
