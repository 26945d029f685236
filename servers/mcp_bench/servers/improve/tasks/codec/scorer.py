"""Readings of made-up weather stations: slow drift, noise, and a day's rhythm."""

import math
from random import Random
from typing import Any


def files(rng: Random, part: str, settings: dict[str, Any]) -> list[bytes]:
    return [table(rng, settings["rows"]) for _ in range(settings["files"])]


def table(rng: Random, rows: int) -> bytes:
    stations = [f"{rng.choice('KLMS')}{rng.randint(100, 999)}" for _ in range(rng.randint(3, 6))]
    state = {name: [rng.uniform(-5, 25), rng.uniform(990, 1030), rng.uniform(0, 12)] for name in stations}
    time, lines = 1_600_000_000 + 600 * rng.randrange(100_000), ["time,station,temperature,pressure,wind"]
    for row in range(rows):
        name = stations[row % len(stations)]
        if name == stations[0]:
            time += 600
        now = state[name]
        now[0] += rng.gauss(0, 0.15) + 0.2 * math.sin(time / 13751)
        now[1] += rng.gauss(0, 0.1)
        now[2] = abs(now[2] + rng.gauss(0, 0.3))
        lines.append(",".join([str(time), name, *(f"{round(value, 1) + 0.0:.1f}" for value in now)]))
    return ("\n".join(lines) + "\n").encode()
