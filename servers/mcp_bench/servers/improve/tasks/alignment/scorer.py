"""Random sequences, half of each pair related."""

from random import Random
from typing import Any


def question(rng: Random, part: str, settings: dict[str, Any]) -> list[Any]:
    pairs = []
    for _ in range(settings["pairs"]):
        length = rng.randint(settings["length"] // 2, settings["length"])
        one = "".join(rng.choices("ACGT", k=length))
        other = "".join(letter for letter in one if rng.random() > 0.2) + "".join(
            rng.choices("ACGT", k=length // 3)
        )
        pairs.append([one, other])
    return [pairs]
