"""Announcements about flights that are drawn, to airports of the package vega-datasets."""

import csv
import importlib.resources
from functools import cache
from random import Random
from typing import Any

CARRIERS = ["AA", "B6", "DL", "UA"]
FORMS = [
    "{flight} to {name} ({code}) leaves at {time}, {delay} minutes late.",
    "Passengers for {name} ({code}): flight {flight}, departure {time}, delay {delay} min.",
    "Delay of {delay} minutes: {flight} for {code} ({name}), scheduled {time}.",
]


@cache
def airports() -> list[tuple[str, str]]:
    file = importlib.resources.files("vega_datasets") / "_data" / "airports.csv"
    with file.open(encoding="utf-8") as opened:
        rows = [(row["name"], row["iata"]) for row in csv.DictReader(opened)]
    return [(name, code) for name, code in rows if len(code) == 3 and code.isalpha()]


def cases(rng: Random, part: str, settings: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [announcement(rng) for _ in range(settings["cases"])]


def announcement(rng: Random) -> tuple[str, list[str]]:
    (name, code), delay = rng.choice(airports()), str(rng.randint(5, 90))
    flight = f"{rng.choice(CARRIERS)}{rng.randint(100, 2999)}"
    time = f"{rng.randrange(24):02}:{rng.randrange(60):02}"
    text = rng.choice(FORMS).format(flight=flight, name=name, code=code, time=time, delay=delay)
    return text, [flight, code, delay]


def loss(label: list[str], answer: Any) -> float:
    """Return the share of fields that are right, which is maximized."""
    said = [field.strip() for field in str(answer).split("|")]
    if len(said) != len(label):
        return 0.0
    return sum(one == other for one, other in zip(said, label, strict=True)) / len(label)
