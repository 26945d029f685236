"""Random matrices."""

from random import Random
from typing import Any

import numpy as np


def question(rng: Random, part: str, settings: dict[str, Any]) -> list[Any]:
    draw = np.random.default_rng(rng.getrandbits(64))
    n, c = settings["size"] + rng.randrange(9), settings["channels"]
    weights = [draw.standard_normal((c, c)).astype(np.float32) / np.float32(c) ** 0.5 for _ in range(3)]
    return [draw.standard_normal((n, n, c)).astype(np.float32), *weights]
