"""Naive Bayes over words."""

import math
from collections import Counter, defaultdict


def solve(names: list[str], languages: list[str], new: list[str]) -> list[str]:
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, language in zip(names, languages, strict=True):
        counts[language].update(name.lower().split())
    totals = {language: sum(counter.values()) for language, counter in counts.items()}

    def score(language: str, words: list[str]) -> float:
        return sum(math.log((counts[language][word] + 0.1) / (totals[language] + 1000)) for word in words)

    return [max(counts, key=lambda language: score(language, name.lower().split())) for name in new]
