"""Naive Bayes over runs of one to four letters, the ends of words among them."""

import math
from collections import Counter, defaultdict

ALPHA = 0.005


def grams(name: str) -> list[str]:
    text = f" {name.lower()} "
    return [text[place : place + size] for size in (1, 2, 3, 4) for place in range(len(text) - size + 1)]


def solve(names: list[str], languages: list[str], new: list[str]) -> list[str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, language in zip(names, languages, strict=True):
        counts[language].update(grams(name))
    known = len({gram for counter in counts.values() for gram in counter})
    rare = {language: math.log(sum(counter.values()) + ALPHA * known) for language, counter in counts.items()}
    holders: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for language, counter in counts.items():
        for gram, count in counter.items():
            holders[gram].append((language, math.log(count + ALPHA) - math.log(ALPHA)))
    found = []
    for name in new:
        parts = grams(name)
        scores = {language: -len(parts) * whole for language, whole in rare.items()}
        for gram in parts:
            for language, extra in holders.get(gram, ()):
                scores[language] += extra
        found.append(max(scores, key=lambda language: scores[language]))
    return found
