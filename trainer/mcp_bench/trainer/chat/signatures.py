"""Our chat template for models whose own knows no tools, with the turn tokens of each family."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any

CHATML = {
    "bos": False,
    "start": "<|im_start|>",
    "role_end": "\n",
    "end": "<|im_end|>",
    "gap": "\n",
    "system": "system",
    "assistant": "assistant",
}
GEMMA = {
    "bos": True,
    "start": "<start_of_turn>",
    "role_end": "\n",
    "end": "<end_of_turn>",
    "gap": "\n",
    "system": "",
    "assistant": "model",
}
"""Gemma 3 has no system turns: their text comes first in the user's turn."""
LLAMA3 = {
    "bos": True,
    "start": "<|start_header_id|>",
    "role_end": "<|end_header_id|>\n\n",
    "end": "<|eot_id|>",
    "gap": "",
    "system": "system",
    "assistant": "assistant",
}
FAMILIES = (CHATML, GEMMA, LLAMA3)


def signatures_template(tokenizer: Any) -> str | None:
    """Return the template with the turn tokens of a tokenizer, or None if it has none that are known.

    The tokens of the tokenizer's own template come first, then those in its vocabulary: a model that was only
    pretrained often has the turn tokens of its family, and no template.
    """
    stock, vocabulary = str(tokenizer.chat_template or ""), tokenizer.get_vocab()
    known = [turns for turns in FAMILIES if turns["start"] in vocabulary and turns["end"] in vocabulary]
    if not known:
        return None
    turns = next((turns for turns in known if str(turns["start"]) in stock), known[0])
    file = resources.files("mcp_bench.trainer") / "chat" / "signatures.jinja"
    _, _, rest = file.read_text(encoding="utf-8").partition("\n")
    return f"{{%- set turns = {json.dumps(turns)} %}}\n{rest.rstrip()}"


def knows_tools(template: str) -> bool:
    """Return whether a chat template can show tools."""
    return re.search(r"\btools\b", template) is not None
