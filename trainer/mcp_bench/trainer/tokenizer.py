"""Load a tokenizer from a folder or by Hub name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError


def load_tokenizer(name: str) -> Any:
    """Return the tokenizer of a folder or Hub name.

    Raises:
        WrongUseError: there is none, or its files cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(name)
    except Exception as error:  # transformers, the Hub client and tokenizers raise different types
        what = "folder" if Path(name).is_dir() else "not a folder, and not available on the Hub"
        raise WrongUseError(f"no tokenizer in {name!r} ({what}): {str(error).splitlines()[0]}") from error
