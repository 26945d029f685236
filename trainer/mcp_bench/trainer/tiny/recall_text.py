"""Synthetic text that teaches a model to find and copy earlier text.

It has values, records, sentences and menus of made-up words, each followed by the parts to repeat. It
contains no tasks, tools or call formats, so a model trained on this text alone solves nothing.
"""

from __future__ import annotations

import json
import random
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

Piece = tuple[str, int | None]
"""Text, and the index of the first token to train on; None if the text is only read."""
READ, SAID = None, 0
CUE = 2
"""The choice of the next question is random, but its text can be copied once its start is known."""

LARGEST = 4
HEX = "0123456789abcdef"


class RecallText:
    """Generates pieces of text with words made of `syllables`.

    Use the tokens of the model as syllables: the model then learns to copy each of them, and unseen names
    consist of known tokens.
    """

    def __init__(self, seed: int, syllables: Sequence[str]) -> None:
        self._random = random.Random(seed)  # noqa: S311 - text to learn from, nothing secret
        self._syllables = syllables
        self._size = LARGEST
        self._short = 3 * (self.echo,) + 2 * (self.retell,) + (self.recall, self.find)
        self._all = (self.echo, self.menu) + 2 * (
            self.retell,
            self.recall,
            self.find,
            self.extract,
            self.amend,
        )

    def draw(self, size: int = LARGEST) -> list[Piece]:
        """Return a piece of text of about 35 tokens times `size`, which is 1 to `LARGEST`.

        The shortest pieces mostly repeat text word for word. Copying is learned from these first, since
        almost all of their tokens are predictable.
        """
        self._size = size
        return self._random.choice(self._short if size == 1 else self._all)()

    def echo(self) -> list[Piece]:
        """Return several values, twice."""
        between = self._random.choice(("\n", ", ", '","'))
        text = between.join(self._value() for _ in range(self._some(4))) + "\n"
        return [(text, READ), (text, SAID)]

    def retell(self) -> list[Piece]:
        """Return a record, then neighbouring keys and values of it with different spacing."""
        record = self._record()
        pieces: list[Piece] = [(f"{_json(record)}\n", READ)]
        for _ in range(self._some(2)):
            count = min(self._some(3), len(record))
            first = self._random.randint(0, len(record) - count)
            text = json.dumps(dict(list(record.items())[first : first + count]))
            start = text.index('": "') + 4
            pieces += [(text[:start], CUE), (f"{text[start:]}\n", SAID)]
        return pieces

    def recall(self) -> list[Piece]:
        """Return a record, then the values of its keys in random order."""
        record = self._record()
        keys = self._random.sample(list(record), len(record))
        return [(_json(record) + "\n", READ), *_answers((f'{{"{key}": "', record[key]) for key in keys)]

    def find(self) -> list[Piece]:
        """Return similar records, then the id of each by one of its values."""
        prefix, keys = self._prefix(), [self._key() for _ in range(self._some(3))]
        records = [
            {"id": self._id(prefix), **{key: self._value() for key in keys}}
            for _ in range(self._random.randint(1, self._size))
        ]
        text = _json({"items": records, "total": len(records)})
        having = Counter(value for record in records for value in set(record.values()))
        questions = [(record[key], record["id"]) for record in records for key in keys]
        self._random.shuffle(questions)
        once = ((f'"{value}" {{"id": "', found) for value, found in questions if having[value] == 1)
        return [(text + "\n", READ), *_answers(once)]

    def extract(self) -> list[Piece]:
        """Return sentences with two values each, then the second value by the first."""
        sentences, questions = [], []
        for _ in range(self._some(3)):
            key, value, other = self._key(), self._value(), self._value()
            sentences.append(self._sentence(value, key, other))
            questions.append((f'"{value}" {{"{key}": "', other))
        self._random.shuffle(questions)
        return [(" ".join(sentences) + "\n", READ), *_answers(questions)]

    def amend(self) -> list[Piece]:
        """Return a sentence with a new value and records with old values, then the id and the new value."""
        key, name, prefix = self._key(), self._key(), self._prefix()
        named, value = self._kind(), self._kind()
        more = {self._key(): self._value() for _ in range(self._some(3))}
        records = [
            {"id": self._id(prefix), name: named(), **more, key: value()}
            for _ in range(self._random.choice((1, 1, self._some(3))))
        ]
        meant, new = self._random.choice(records), value()
        sentence = self._sentence(meant[name], key, new)
        text = f'{sentence}\n{_json({"items": records, "total": len(records)})}\n{{"id": "'
        return [(text, READ), (f'{meant["id"]}", "{key}": "{new}"}}\n', SAID)]

    def menu(self) -> list[Piece]:
        """Return names with parameters, one per line, then the full name by its last word."""
        group = self._key()
        verbs = list(dict.fromkeys(self._word().lower() for _ in range(self._random.randint(3, 5))))
        lines = [f"{group}_{verb}({self._parameters()}) {self._phrase().capitalize()}.\n" for verb in verbs]
        questions = self._random.sample(verbs, len(verbs))
        answers = _answers((f'"{verb}" {{"in": "', f"{group}_{verb}") for verb in questions)
        return [("".join(lines), READ), *answers]

    def _sentence(self, about: str, key: str, value: str) -> str:
        sentence = self._random.choice(
            (
                f'{self._phrase()} "{about}" {self._phrase()}: {value}.',
                f"{self._phrase()} {key} {about} = {value}, {self._phrase()}.",
                f"{about} {self._phrase()} {key}: {value}.",
                f"{self._phrase()} {about} {self._phrase()} {key} {value}?",
            )
        )
        return sentence[0].upper() + sentence[1:]

    def _some(self, most: int) -> int:
        """Return a random count: 1 to `most` in the largest pieces, fewer in smaller ones."""
        return self._random.randint(1, max(1, most * self._size // LARGEST))

    def _record(self) -> dict[str, str]:
        return {"id": self._id(self._prefix()), **{self._key(): self._value() for _ in range(self._some(6))}}

    def _parameters(self) -> str:
        return ", ".join(self._key() for _ in range(self._random.randint(1, 3)))

    def _phrase(self, most: int = 5) -> str:
        return " ".join(self._word() for _ in range(self._random.randint(1, most)))

    def _word(self) -> str:
        return "".join(self._random.choice(self._syllables) for _ in range(self._random.randint(1, 3)))

    def _name(self) -> str:
        word = self._word()
        return word[0].upper() + word[1:]

    def _key(self) -> str:
        return "_".join(self._word().lower() for _ in range(self._random.choice((1, 1, 2))))

    def _digits(self, count: int) -> str:
        return "".join(self._random.choices(string.digits, k=count))

    def _prefix(self) -> str:
        return "".join(self._random.choices(string.ascii_lowercase, k=3))

    def _id(self, prefix: str) -> str:
        return f"{prefix}_{''.join(self._random.choices(HEX, k=6))}"

    def _date(self) -> str:
        draw = self._random.randint
        return f"20{draw(20, 29)}-{draw(1, 12):02}-{draw(1, 28):02}"

    def _value(self) -> str:
        return self._kind()()

    def _kind(self) -> Callable[[], str]:
        """Return a generator function for values of a random kind."""
        draw, name, word = self._random.randint, self._name, self._word
        kinds: tuple[tuple[int, Callable[[], str]], ...] = (
            (30, lambda: " ".join(name() for _ in range(draw(1, 3)))),
            (10, lambda: f"{self._phrase(3).capitalize()} {self._digits(3)}"),
            (12, lambda: f"{word()}.{word()}@{word()}-{word()}.example".lower()),
            (8, self._date),
            (5, lambda: f"{self._date()}T{draw(0, 23):02}:{draw(0, 59):02}:00Z"),
            (6, lambda: f"+1 {self._digits(3)} {self._digits(3)} {self._digits(4)}"),
            (7, lambda: f"{word().upper()[:4]}-{self._digits(4)}"),
            (6, lambda: self._id(self._prefix())),
            (4, lambda: f"{draw(0, 99)}.{draw(0, 9)}"),
            (4, lambda: f"{draw(1, 200)} {name()} {name()}, {name()}"),
            (3, lambda: self._digits(draw(1, 6))),
            (5, word),
        )
        weights = [weight for weight, _ in kinds]
        return self._random.choices(kinds, weights)[0][1]


def _answers(questions: Iterable[tuple[str, str]]) -> Iterator[Piece]:
    for cue, answer in questions:
        yield cue, CUE
        yield f'{answer}"}}\n', SAID


def _json(value: object) -> str:
    return json.dumps(value, separators=(",", ":"))
