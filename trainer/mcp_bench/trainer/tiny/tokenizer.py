"""A small vocabulary from the training rows that tokenises a name the same way in every context.

A tiny model relies on copying, and it can only copy names that have the same tokens in the request, in
results and in calls. Text is therefore split into words, single digits, runs of JSON punctuation and single
characters before merges: no token spans a name and its surroundings.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import resources
from typing import Any

from mcp_bench.trainer.rows import Row

PAD, TURN, END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CALL = ("<tool_call>", "</tool_call>")
PIECES = r'[A-Za-z]+|\d|[{}\[\]":,]+|\s|.'
LEAST = 20
"""Minimum frequency of a merge. Rarer pieces are split further."""


def chat_template() -> str:
    """Return the template for training and serving the tiny model."""
    return resources.files(__package__).joinpath("chat_template.jinja").read_text(encoding="utf-8")


def make_tokenizer(rows: Iterable[Row], vocabulary: int = 1024) -> Any:
    """Return a byte-level BPE tokenizer (https://arxiv.org/abs/1508.07909) with at most `vocabulary` tokens.

    It is built from training rows only, so words that only held-out tasks contain stay unknown.
    """
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    merges = Tokenizer(models.BPE())
    merges.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PIECES), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    merges.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary - len(CALL),
        special_tokens=[PAD, TURN, END],
        initial_alphabet=alphabet,
        min_frequency=LEAST,
        show_progress=False,
    )
    template = chat_template()
    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(models.BPE()), chat_template=template)
    texts = (plain.apply_chat_template(row.messages, tools=_tools(row), tokenize=False) for row in rows)
    merges.train_from_iterator(texts, trainer)
    merges.add_tokens([AddedToken(token, normalized=False) for token in CALL])
    return PreTrainedTokenizerFast(
        tokenizer_object=merges, eos_token=END, pad_token=PAD, chat_template=template
    )


def _tools(row: Row) -> Any:
    return row.tools  # Any, since transformers' type for tools is wider
