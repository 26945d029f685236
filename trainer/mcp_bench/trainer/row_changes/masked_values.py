"""Training rows with other names of people, products and places, so that a model learns to copy them.

Benchmarks draw such names from lists. A model that is trained on few of them writes one that it knows where
it should repeat one that it does not: a search for `Metro Drone` becomes one for `Morteza Drone`.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from mcp_bench.trainer.rows import Row

ONSETS = "b bl br c ch cl cr d dr f fl fr g gl gr h j k l m n p ph pl pr qu r s sh sl sp st t th tr v w z"
NUCLEI = "a e i o u a e i o ai au ea ee ia io oo ou"
CODAS = "b ck d g k l ll m n nd ng nt p r rd rk rn rt s sh ss st t th x z"
"""The beginnings, middles and ends of syllables. They make more words than a vocabulary has."""

LONGEST = 100
"""Longer values are texts, whose words are more than names."""
_WORD = re.compile(r"(?<!\w)[A-Za-z]{3,}(?!\w)")
_NAME = re.compile(r"\S*\w[-.@]\w\S*")
"""An address, the name of a file or channel: its words are names though they are not capitalised."""


def with_masked_values(rows: Sequence[Row], share: float, seed: int) -> list[Row]:
    """Return the rows; in a share of them, names that calls repeat are random words.

    Names are the capitalised words, and the parts of addresses, in a short value of a call that an earlier
    message has word for word. Words of the tools and of instructions stay, so that lists of values apply, and
    codes in capitals. A name is the same word in the whole row.

    Args:
        rows: the rows.
        share: how many of the rows, from 0 to 1, on average.
        seed: decides which rows, and on the words.
    """
    draws = (random.Random(f"values {seed} {at}") for at in range(len(rows)))  # noqa: S311
    return [
        _masked(row, draw) if draw.random() < share else row for row, draw in zip(rows, draws, strict=True)
    ]


def _masked(row: Row, draw: random.Random) -> Row:
    instructions = (one.get("content") or "" for one in row.messages if one["role"] == "system")
    fixed = [json.dumps(row.tools), *instructions]
    known = {word.lower() for text in fixed for word in re.findall("[A-Za-z]+", text)}
    new: dict[str, str] = {}
    for word in _copied(row.messages):
        if word not in known and word not in new:
            new[word] = _word(draw, {*known, *new.values()})
    if not new:
        return row
    # in JSON, the word after a line break follows the letter of \n
    found = re.compile(rf"(?:(?<!\w)|(?<=\\[nrt]))(?ai:{'|'.join(new)})(?!\w)")
    return replace(row, messages=[_message(one, found, new) for one in row.messages])


def _copied(messages: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the names in values of calls that an earlier message has, in small letters."""
    earlier = ""
    for message in messages:
        for call in message.get("tool_calls") or []:
            for value in _texts(call["function"]["arguments"]):
                if len(value) <= LONGEST and value in earlier:
                    yield from _names(value)
        earlier += f"\n{message.get('content') or ''}"


def _names(value: str) -> Iterator[str]:
    whole = _NAME.fullmatch(value) is not None
    end = value.rfind(".") if whole and "." in value else len(value)  # without the domain's or file's kind
    for found in _WORD.finditer(value, 0, end):
        if (whole or found[0][0].isupper()) and not found[0].isupper():
            yield found[0].lower()


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for one in value.values() if isinstance(value, dict) else value:
            yield from _texts(one)


def _message(message: dict[str, Any], found: re.Pattern[str], new: dict[str, str]) -> dict[str, Any]:
    def changed(value: Any) -> Any:
        match value:
            case str():
                return found.sub(lambda at: _cased(new[at[0].lower()], at[0]), value)
            case list():
                return [changed(one) for one in value]
            case dict():
                return {key: changed(one) for key, one in value.items()}
        return value

    new_message = dict(message)
    for key in ("content", "reasoning_content"):
        if key in message:
            new_message[key] = changed(message[key])
    if calls := message.get("tool_calls"):
        functions = [call["function"] for call in calls]
        new_message["tool_calls"] = [
            {**call, "function": {**one, "arguments": changed(one["arguments"])}}
            for call, one in zip(calls, functions, strict=True)
        ]
    return new_message


def _cased(word: str, like: str) -> str:
    """Return a word with capitals where another one has them."""
    return word.upper() if like.isupper() else word.capitalize() if like[0].isupper() else word


def _word(draw: random.Random, taken: set[str]) -> str:
    """Return a new word of one or two syllables."""
    while True:
        word = "".join(_syllable(draw) for _ in range(draw.randint(1, 2)))
        if len(word) >= 3 and word not in taken:
            return word


def _syllable(draw: random.Random) -> str:
    end = draw.choice(CODAS.split()) if draw.random() < 0.8 else ""
    return draw.choice(ONSETS.split()) + draw.choice(NUCLEI.split()) + end
