"""Load a tokenizer from a folder or by Hub name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.base_config import fault, place


def load_tokenizer(name: str) -> Any:
    """Return the tokenizer of a folder, GGUF file or Hub name.

    Raises:
        WrongUseError: there is none, or its files cannot be read.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(**place(name))
    except Exception as error:  # transformers, the Hub client and tokenizers raise different types
        where = " (a folder)" if Path(name).is_dir() else ""
        raise WrongUseError(f"no tokenizer in {name!r}{where}: {fault(name, error)}") from error
