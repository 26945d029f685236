"""A small vocabulary from the training rows, in which a name has the same tokens wherever it stands.

Copying is what a tiny model lives on, and it can copy only what looks the same in the request, in a result
and in a call. So words, single digits, runs of JSON punctuation and single characters are taken apart
before anything is merged: no token crosses from a name into what is around it.
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
"""A piece that is rarer in the rows is spelled out."""


def chat_template() -> str:
    """Return the template that the tiny model is trained and served with."""
    return resources.files(__package__).joinpath("chat_template.jinja").read_text(encoding="utf-8")


def make_tokenizer(rows: Iterable[Row], vocabulary: int = 1024) -> Any:
    """Return a byte-level BPE tokenizer (https://arxiv.org/abs/1508.07909) of `vocabulary` tokens at most.

    It is made of training rows alone: a word that only held-out tasks have must be unknown to it.
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
    return row.tools  # typed wider by transformers: functions, too
