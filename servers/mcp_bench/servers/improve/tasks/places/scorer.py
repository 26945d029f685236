"""Airports of the package vega-datasets. Search and grading share no airport."""

import csv
import importlib.resources
from random import Random
from typing import Any


def data(rng: Random, part: str, settings: dict[str, Any]) -> tuple[list[Any], list[str]]:
    file = importlib.resources.files("vega_datasets") / "_data" / "airports.csv"
    with file.open(encoding="utf-8") as opened:
        rows = [row for row in csv.DictReader(opened) if row["country"] == "USA" and row["state"]]
    Random(1).shuffle(rows)
    half = rng.sample(rows[::2] if part == "search" else rows[1::2], len(rows) // 2)
    train, chosen = half[: settings["train"]], half[settings["train"] :]
    return [place(train), [row["state"] for row in train], place(chosen)], [row["state"] for row in chosen]


def place(rows: list[dict[str, str]]) -> list[list[float]]:
    return [[float(row["latitude"]), float(row["longitude"])] for row in rows]


def loss(label: str, prediction: Any) -> float:
    return float(label != prediction)
