"""Tokenizers of byte-level BPE (https://arxiv.org/abs/1508.07909), out of GGUF and into it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mcp_bench.servers.errors import WrongUseError
from mcp_bench.trainer.chat.tool_template import tool_template
from mcp_bench.trainer.gguf.pretokenizers import (
    PRETOKENIZERS,
    WHOLE_WORDS,
    pretokenizer,
    pretokenizer_name,
)

NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5
"""Types of tokens (`gguf.TokenType`)."""
SPECIAL_IDS = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
"""`tokenizer.ggml.NAME_token_id` and the tokenizer's attribute for it."""

MORE_ENDS = ("eot", "eom")
"""`tokenizer.ggml.NAME_token_id` of tokens besides `eos` that end an answer: of a turn, of a message."""


@dataclass(frozen=True)
class GgufTokenizer:
    """A tokenizer's parts, as GGUF has them. A token's number is its place in the list."""

    tokens: list[str]
    types: list[int]
    merges: list[str]
    """Pairs of tokens, each with a space between, the first one to apply first."""
    pre: str
    """llama.cpp's name for how text is split before."""
    special: Mapping[str, int] = field(default_factory=dict)
    """`bos`, `eos`, `unknown`, `padding` to the token's number."""
    add_bos: bool = False
    """Whether plain text begins with the token `bos`. A conversation begins as its template has it."""
    chat_template: str | None = None
    ends: tuple[int, ...] = ()
    """Tokens besides `eos` that end an answer, at most as many as `MORE_ENDS`."""


def to_transformers(parts: GgufTokenizer, max_length: int) -> Any:
    """Return the tokenizer as a `PreTrainedTokenizerFast`.

    Raises:
        WrongUseError: its way to split text is unknown.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, processors
    from transformers import PreTrainedTokenizerFast

    before = pretokenizer(parts.pre)
    vocabulary = {token: number for number, token in enumerate(parts.tokens)}
    merges = [(one, two) for one, _, two in (merge.partition(" ") for merge in parts.merges)]
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=parts.pre in WHOLE_WORDS))
    made.decoder = decoders.ByteLevel()
    added = [
        AddedToken(token, special=kind == CONTROL, normalized=False)
        for token, kind in zip(parts.tokens, parts.types, strict=True)
        if kind in (CONTROL, USER_DEFINED)
    ]
    for token in added:
        (made.add_special_tokens if token.special else made.add_tokens)([token])
    # a component can only be made from JSON as part of a whole tokenizer
    made = Tokenizer.from_str(json.dumps({**json.loads(made.to_str()), "pre_tokenizer": before}))
    if parts.add_bos and (bos := parts.special.get("bos")) is not None:
        first = parts.tokens[bos]
        made.post_processor = processors.TemplateProcessing(
            single=[first, "$A"], special_tokens=[(first, bos)]
        )
    names = {SPECIAL_IDS[name]: parts.tokens[number] for name, number in parts.special.items()}
    return PreTrainedTokenizerFast(
        tokenizer_object=made,
        chat_template=parts.chat_template,
        model_max_length=max_length,
        clean_up_tokenization_spaces=False,
        **names,
    )


def from_folder(folder: Path, rows: int) -> GgufTokenizer:
    """Read a folder's tokenizer, with its chat template.

    Args:
        folder: a model's folder.
        rows: rows of the model's embedding. Those without a token get an unused one.

    Raises:
        WrongUseError: it is of another kind than byte-level BPE, or llama.cpp cannot split text as it does,
            or an answer would not end where it does here.
    """
    from transformers import AutoTokenizer

    file = folder / "tokenizer.json"
    if not file.is_file():
        raise WrongUseError(f"{folder} has no tokenizer.json: only these tokenizers can be written to GGUF")
    content = json.loads(file.read_bytes())
    model, before = content["model"], content.get("pre_tokenizer")
    if model["type"] != "BPE" or model.get("byte_fallback"):
        raise WrongUseError(
            f"{file}: only byte-level BPE can be written to GGUF, not {model['type']}"
            + (" with byte fallback (SentencePiece)" if model.get("byte_fallback") else "")
        )
    pre = pretokenizer_name(before)
    # llama.cpp does not bring text into NFC, which it is in as a rule
    if pre is None or content.get("normalizer") not in (None, {"type": "NFC"}):
        raise WrongUseError(
            f"{file} splits text in a way that llama.cpp has no name for, or none that is known here "
            f"({', '.join(PRETOKENIZERS)}): the model would get other tokens than in training"
        )
    if model.get("ignore_merges", False) != (pre in WHOLE_WORDS):
        raise WrongUseError(
            f"{file} {'does not take' if pre in WHOLE_WORDS else 'takes'} each word of the vocabulary as one "
            f"token (ignore_merges), and llama.cpp does the opposite for {pre}: the model would get other "
            "tokens than in training"
        )
    if not model["merges"]:
        raise WrongUseError(f"{file} has no merges, and llama.cpp loads no byte-level BPE without")
    tokens, types = _vocabulary(model["vocab"], content.get("added_tokens", []), rows, file)
    loaded = AutoTokenizer.from_pretrained(str(folder))
    special = {name: getattr(loaded, f"{attribute}_id") for name, attribute in SPECIAL_IDS.items()}
    ends = _ends(folder)
    if special["eos"] is None:  # llama.cpp would end answers at token 11, whatever that is
        if not ends:
            raise WrongUseError(f"{folder} has no token that ends an answer: set the tokenizer's eos_token")
        special["eos"] = min(ends)
    ends -= {special["eos"]}
    if len(ends) > len(MORE_ENDS):
        raise WrongUseError(
            f"{folder} has {len(ends)} tokens besides the tokenizer's eos_token that end an answer "
            f"(eos_token_id in generation_config.json), and GGUF has a place for {len(MORE_ENDS)}: remove "
            "those that the model does not end with"
        )
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    return GgufTokenizer(
        tokens,
        types,
        merges,
        pre,
        {name: number for name, number in special.items() if number is not None},
        add_bos=loaded("a")["input_ids"][0] == loaded.bos_token_id,
        chat_template=tool_template(loaded.chat_template),
        ends=tuple(sorted(ends)),
    )


def _ends(folder: Path) -> set[int]:
    """Return the tokens that end an answer when the folder is served."""
    for name in ("generation_config.json", "config.json"):
        file = folder / name
        given = json.loads(file.read_bytes()).get("eos_token_id") if file.is_file() else None
        if given is not None:
            return set(given if isinstance(given, list) else [given])
    return set()


def _vocabulary(
    vocabulary: Mapping[str, int], added: Iterable[Mapping[str, Any]], rows: int, file: Path
) -> tuple[list[str], list[int]]:
    by_number = {number: (token, NORMAL) for token, number in vocabulary.items()}
    for token in added:
        by_number[token["id"]] = (token["content"], CONTROL if token["special"] else USER_DEFINED)
    if by_number and max(by_number) >= rows:
        raise WrongUseError(
            f"{file} has token {max(by_number)}, but the model's embedding has only {rows} rows"
        )
    whole = [by_number.get(number, (f"[PAD{number}]", UNUSED)) for number in range(rows)]
    return [token for token, _ in whole], [kind for _, kind in whole]
