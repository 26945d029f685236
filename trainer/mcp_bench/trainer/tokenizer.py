"""Loads a tokenizer from a folder, or from a model hub by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError


def load_tokenizer(name: str) -> Any:
    """Return the tokenizer of a folder or hub name.

    Raises:
        WrongUseError: there is none of that name, or its files cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except Exception as error:  # transformers, the hub client and tokenizers each raise their own
        what = "folder" if Path(name).is_dir() else "model of that name here or on the hub"
        raise WrongUseError(f"no tokenizer in {name!r} ({what}): {str(error).splitlines()[0]}") from error
