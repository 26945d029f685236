"""How text is split before BPE: llama.cpp has names for it, the package tokenizers has components.

Both split with the same rules (`llm_tokenizer_bpe` in llama.cpp's `src/llama-vocab.cpp`). A wrong name fails
nowhere, but gives a model other tokens than it was trained on, so unknown rules are refused.
"""

from __future__ import annotations

from typing import Any

from mcp_bench.servers.errors import WrongUseError

BYTES: dict[str, Any] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
LLAMA_3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN_2 = LLAMA_3.replace(r"\p{N}{1,3}", r"\p{N}")


def _split(pattern: str) -> dict[str, Any]:
    return {
        "type": "Sequence",
        "pretokenizers": [
            {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False},
            {**BYTES, "use_regex": False},
        ],
    }


PRETOKENIZERS: dict[str, dict[str, Any]] = {
    "gpt-2": {**BYTES, "use_regex": True},
    "smollm": {
        "type": "Sequence",
        "pretokenizers": [{"type": "Digits", "individual_digits": True}, {**BYTES, "use_regex": True}],
    },
    "llama-bpe": _split(LLAMA_3),
    "qwen2": _split(QWEN_2),
}
"""llama.cpp's name to the component, as in a tokenizer.json."""

WHOLE_WORDS = ("llama-bpe",)
"""Names for which llama.cpp takes a word that is in the vocabulary as one token, without its merges."""


def pretokenizer(name: str) -> dict[str, Any]:
    """Return the component for llama.cpp's name.

    Raises:
        WrongUseError: the name is unknown.
    """
    if name not in PRETOKENIZERS:
        raise WrongUseError(f"unknown pre-tokenizer {name!r} (supported: {', '.join(PRETOKENIZERS)})")
    return PRETOKENIZERS[name]


def pretokenizer_name(component: dict[str, Any] | None) -> str | None:
    """Return llama.cpp's name for the component of a tokenizer.json, or None if it has none that is known."""
    return next((name for name, known in PRETOKENIZERS.items() if _same(component, known)), None)


def _same(one: Any, other: Any) -> bool:
    """Compare components. Where byte offsets are trimmed does not change tokens."""
    return bool(_essence(one) == _essence(other))


def _essence(component: Any) -> Any:
    if isinstance(component, dict):
        return {key: _essence(value) for key, value in component.items() if key != "trim_offsets"}
    return [_essence(part) for part in component] if isinstance(component, list) else component
