"""Templates and contexts that are drawn."""

from random import Random
from typing import Any

WORDS = ["alder", "birch", "cedar", "dogwood", "elm", "fir", "ginkgo", "hazel", "ivy", "juniper"]


def question(rng: Random, part: str, settings: dict[str, Any]) -> list[Any]:
    return [
        [
            [template(rng, 2), [context(rng) for _ in range(settings["values"])]]
            for _ in range(settings["templates"])
        ]
    ]


def template(rng: Random, depth: int) -> str:
    parts = []
    for _ in range(rng.randint(4, 8)):
        kind = rng.random()
        if kind < 0.35:
            parts.append(" ".join(rng.choices(WORDS, k=rng.randint(2, 12))) + " ")
        elif kind < 0.7 or not depth:
            parts.append(
                "{{ "
                + rng.choice(["name", "city", "n", "item", "missing"])
                + rng.choice(["", " | upper", " | title", " | length"])
                + " }}"
            )
        elif kind < 0.85:
            parts.append(
                "{% for item in "
                + rng.choice(["rows", "names"])
                + " %}"
                + template(rng, depth - 1)
                + "{% end %}"
            )
        else:
            parts.append(
                "{% if "
                + rng.choice(["member", "missing", "name"])
                + " %}"
                + template(rng, depth - 1)
                + "{% end %}"
            )
    return "".join(parts)


def context(rng: Random) -> dict[str, Any]:
    return {
        "name": rng.choice(WORDS),
        "city": " ".join(rng.choices(WORDS, k=2)),
        "n": rng.randint(0, 9999),
        "member": rng.random() < 0.5,
        "rows": [rng.randint(0, 99) for _ in range(rng.randint(0, 6))],
        "names": rng.choices(WORDS, k=rng.randint(1, 5)),
    }
