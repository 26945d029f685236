"""Cells that mix a few programs of genes. Each measurement draws its own."""

from random import Random
from typing import Any

import numpy as np


def data(rng: Random, part: str, settings: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    draw = np.random.default_rng(rng.getrandbits(64))
    cells, genes, programs = settings["cells"], settings["genes"], rng.randint(4, 7)
    profiles = draw.lognormal(0, 1.2, (programs, genes))
    profiles /= profiles.sum(1, keepdims=True)
    shares = draw.dirichlet(np.full(programs, 0.3), cells) @ profiles
    depth = draw.lognormal(np.log(250), 0.5, (cells, 1))
    return [draw.poisson(shares * depth)], list(shares)


def loss(label: Any, prediction: Any) -> float:
    found = np.asarray(prediction, float)
    if found.shape != label.shape or not np.isfinite(found).all() or (found < 0).any() or found.sum() <= 0:
        raise ValueError("it must be one share of at least 0 for each gene")
    return float(np.sqrt(np.mean((np.log1p(1e4 * found / found.sum()) - np.log1p(1e4 * label)) ** 2)))
