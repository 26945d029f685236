"""Flights that are drawn: other rows for each run, so that no answer can be known beforehand."""

from random import Random
from typing import Any

CARRIERS = ["AA", "B6", "DL", "EV", "MQ", "UA", "US", "WN"]
ORIGINS = ["EWR", "JFK", "LGA"]
MAKERS = ["AIRBUS", "BOEING", "BOMBARDIER", "CESSNA", "EMBRAER", "PIPER"]
DESTINATIONS = [first + second + third for first in "ABCD" for second in "OT" for third in "LNX"]


def data(rng: Random, part: str, settings: dict[str, Any]) -> dict[str, bytes]:
    planes = [f"N{number:04}" for number in range(settings["flights"] // 10)]
    rows = []
    for number in range(settings["flights"]):
        late = max(-20, int(rng.expovariate(1 / 25)) - 15)
        when = (rng.randint(1, 12), rng.randint(1, 28), rng.randint(5, 23))
        flight = (rng.choice(CARRIERS), number % 900, rng.choice(planes))
        way = (rng.choice(ORIGINS), rng.choice(DESTINATIONS))
        rows.append((*when, *flight, *way, late, late + rng.randint(-15, 30)))
    winds = [
        (origin, month, day, hour, rng.randint(0, 40))
        for origin in ORIGINS
        for month in range(1, 13)
        for day in range(1, 29)
        for hour in range(5, 24, 3)
    ]
    built = [(plane, rng.choice(MAKERS), rng.randint(1985, 2013)) for plane in planes]
    text = "\n".join(
        [
            "CREATE TABLE flights(month, day, hour, carrier, flight, tailnum, origin, dest,",
            "  dep_delay, arr_delay);",
            "CREATE TABLE planes(tailnum, manufacturer, year);",
            "CREATE TABLE weather(origin, month, day, hour, wind);",
            "BEGIN;",
            *(f"INSERT INTO flights VALUES {row};" for row in rows),
            *(f"INSERT INTO planes VALUES {row};" for row in built),
            *(f"INSERT INTO weather VALUES {row};" for row in winds),
            "COMMIT;",
        ]
    )
    return {"data.sql": text.encode()}


def question(rng: Random, part: str, settings: dict[str, Any]) -> list[Any]:
    month = rng.randint(1, 12)
    return [
        ["late", {"dest": rng.choice(DESTINATIONS), "delay": rng.randint(0, 60)}],
        ["day", {"month": month, "day": rng.randint(1, 28), "origin": rng.choice(ORIGINS)}],
        ["windy", {"carrier": rng.choice(CARRIERS), "month": month, "delay": rng.randint(0, 30)}],
        ["makers", {"month": month}],
        ["worst", {"month": month}],
    ]
