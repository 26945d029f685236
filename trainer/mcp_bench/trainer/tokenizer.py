"""Load a tokenizer from a folder, or by the name of a base or of the Hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.architectures.base_config import ask_hub, fault, place
from mcp_bench.trainer.bases import KNOWN, located


def load_tokenizer(name: str) -> Any:
    """Return the tokenizer of a folder, GGUF file, fetched base or Hub name.

    Raises:
        WrongUseError: there is none, or its files cannot be read.
    """
    from transformers import AutoTokenizer

    if name in KNOWN and located(name) == name:
        raise WrongUseError(f"{name} is not on this machine yet. Fetch it with: mcp-bench train base {name}")
    folder = located(name)
    try:
        if not Path(folder).exists():
            ask_hub(folder)
        return AutoTokenizer.from_pretrained(**place(folder))
    except Exception as error:  # transformers, the Hub client and tokenizers raise different types
        where = " (a folder)" if Path(name).is_dir() else ""
        raise WrongUseError(f"no tokenizer in {name!r}{where}: {fault(name, error)}") from error
