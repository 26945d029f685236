"""Names from Unicode's CLDR, in the package babel. What is named is in one part only."""

from functools import cache
from random import Random
from typing import Any


@cache
def names() -> list[tuple[str, str, str]]:
    """Return (language, what is named, its name) for names that differ from English."""
    from babel import Locale, localedata

    english = Locale("en")
    found = []
    for code in sorted(localedata.locale_identifiers()):
        if "_" in code:
            continue
        locale = Locale(code)
        for kind in ("territories", "languages", "currencies"):
            for key, name in getattr(locale, kind).items():
                other = getattr(english, kind).get(key) if code != "en" else None
                if isinstance(name, str) and not name.isdigit() and name not in (key, other, ""):
                    found.append((code, f"{kind} {key}", name))
    return found


def data(rng: Random, part: str, settings: dict[str, Any]) -> tuple[list[Any], list[str]]:
    by_language: dict[str, list[tuple[str, str]]] = {}
    for code, key, name in names():
        by_language.setdefault(code, []).append((key, name))
    rich = sorted(by_language, key=lambda code: (-len(by_language[code]), code))[: settings["languages"]]
    keys = sorted({key for code in rich for key, _ in by_language[code]})
    Random(1).shuffle(keys)
    third = len(keys) // 3
    parts = {
        "train": set(keys[:third]),
        "search": set(keys[third : 2 * third]),
        "grade": set(keys[2 * third :]),
    }

    def rows(which: str, count: int, chance: Random) -> list[tuple[str, str]]:
        pool = [(name, code) for code in rich for key, name in by_language[code] if key in parts[which]]
        return chance.sample(pool, min(count, len(pool)))

    train, new = rows("train", settings["train"], rng), rows(part, settings["rows"], rng)
    return [[n for n, _ in train], [c for _, c in train], [n for n, _ in new]], [c for _, c in new]


def loss(label: str, prediction: Any) -> float:
    """1 where the answer is right: the metric is the accuracy, which is maximized."""
    return float(label == prediction)
