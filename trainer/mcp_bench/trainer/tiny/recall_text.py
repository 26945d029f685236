"""Text that teaches one thing: to find what was said before, and to say it again.

It has records, statements and menus of made-up names, each followed by questions whose answers stand above.
It knows no task, no tool and no format of a call: a model of this text alone solves nothing.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Iterator, Sequence
from typing import Any

Piece = tuple[str, bool]
"""Text, and whether a model is to learn to say it."""

SYLLABLES = [
    "ba",
    "ke",
    "lo",
    "mi",
    "nu",
    "ra",
    "se",
    "ti",
    "vo",
    "an",
    "er",
    "in",
    "st",
    "or",
    "la",
    "th",
    "ch",
    "ou",
    "ing",
    "el",
    "do",
    "sh",
    "ga",
    "pe",
]
HEX = "0123456789abcdef"


class RecallText:
    """Draws pieces of text. `words` are mixed in, so that their tokens are not strangers."""

    def __init__(self, seed: int, words: Sequence[str]) -> None:
        self._random = random.Random(seed)  # noqa: S311 - text to learn from, nothing secret
        self._words = words
        self._kinds: tuple[Callable[[], list[Piece]], ...] = (
            self.recall, self.recall, self.recall, self.find, self.find, self.find,
            self.extract, self.extract, self.extract, self.menu, self.menu,
        )  # fmt: skip

    def draw(self) -> list[Piece]:
        """Return one piece of text of any kind."""
        return self._random.choice(self._kinds)()

    def recall(self) -> list[Piece]:
        """A record, and the values of some of its keys."""
        record = {self._key(): self._value() for _ in range(self._random.randint(2, 6))}
        if self._random.random() < 0.7:
            record = {"id": self._id(), **record}
        asked = self._random.sample(list(record), min(len(record), 3))
        return [(_json(record) + "\n", False), *self._answers((key, record[key]) for key in asked)]

    def find(self) -> list[Piece]:
        """Some records, and the ids of some by their names."""
        records = [
            {"id": self._id(), self._key(): self._value(), "name": self._value(), self._key(): self._value()}
            for _ in range(self._random.choice((1, 1, 2, 3)))
        ]
        asked = self._random.sample(records, min(len(records), 2))
        return [
            (_json({"items": records}) + "\n", False),
            *self._answers((record["name"], record["id"]) for record in asked),
        ]

    def extract(self) -> list[Piece]:
        """A sentence with a value in it, and the value."""
        before, after = self._phrase(), self._phrase()
        value, other, key = self._value(), self._value(), self._key()
        kind = self._random.randrange(3)
        if kind == 0:
            return [(f'{before.capitalize()} "{value}" {after}.\n"', False), (f'{value}"\n', True)]
        if kind == 1:
            return [
                (f"{before.capitalize()} {value} = {other}, {after}.\n{value} = ", False),
                (f"{other}\n", True),
            ]
        return [(f'{key}: {value}; {after}\n{{"', False), (f'{key}": "{value}"}}\n', True)]

    def menu(self) -> list[Piece]:
        """Names with parameters, one to a line, and the whole name for its last word."""
        group = self._word().lower()
        verbs = list(dict.fromkeys(self._word().lower() for _ in range(self._random.randint(3, 5))))
        lines = [f"{group}_{verb}({self._parameters()}) {self._phrase().capitalize()}\n" for verb in verbs]
        asked = self._random.sample(verbs, min(len(verbs), 2))
        return [("".join(lines), False), *self._answers((verb, f"{group}_{verb}") for verb in asked)]

    def _answers(self, pairs: Any) -> Iterator[Piece]:
        for asked, answer in pairs:
            yield f"{asked} = ", False
            yield f"{answer}\n", True

    def _parameters(self) -> str:
        return ", ".join(self._key() for _ in range(self._random.randint(1, 3)))

    def _phrase(self) -> str:
        return " ".join(self._word() for _ in range(self._random.randint(1, 5)))

    def _word(self) -> str:
        draw, chance = self._random, self._random.random()
        if chance < 0.35:
            return draw.choice(self._words)
        if chance < 0.7:
            return "".join(draw.choice(SYLLABLES) for _ in range(draw.randint(1, 4)))
        return "".join(draw.choice(string.ascii_lowercase) for _ in range(draw.randint(2, 8)))

    def _name(self) -> str:
        word = self._word()
        return word[:1].upper() + word[1:]

    def _key(self) -> str:
        return "_".join(self._word().lower() for _ in range(self._random.randint(1, 2)))

    def _id(self) -> str:
        letters = "".join(self._random.choice(string.ascii_lowercase) for _ in range(3))
        return f"{letters}_{''.join(self._random.choice(HEX) for _ in range(6))}"

    def _value(self) -> str:
        draw = self._random
        kinds: tuple[tuple[int, Callable[[], str]], ...] = (
            (35, lambda: " ".join(self._name() for _ in range(draw.randint(1, 3)))),
            (10, lambda: f"{self._name()} {self._word()} {draw.randint(1, 999)}"),
            (10, lambda: f"{self._word()}.{self._word()}@{self._word()}-{self._word()}.example"),
            (7, lambda: f"20{draw.randint(20, 29)}-{draw.randint(1, 12):02}-{draw.randint(1, 28):02}"),
            (5, lambda: f"+1 {draw.randint(100, 999)} {draw.randint(100, 999)} {draw.randint(1000, 9999)}"),
            (7, lambda: f"{draw.choice(string.ascii_uppercase)}-{draw.randint(100, 9999)}"),
            (10, self._id),
            (6, lambda: str(draw.randint(1, 9999))),
            (10, self._word),
        )
        weights = [weight for weight, _ in kinds]
        return draw.choices(kinds, weights)[0][1]()


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
