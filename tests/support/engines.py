"""The engines that record runs. What a test shows of one process holds for several, and for a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.bench_commands import FIXTURES, Bench

OPTIONS = {"local": (), "referees": ("--referees", "2"), "ray": ("--ray",)}
RAY_STAND_IN = Path(__file__).with_name("ray_stand_in")


def engine_options(bench: Bench, engine: str) -> tuple[str, ...]:
    """Return the options of `record` for an engine. Ray is a stand-in, with two nodes of real processes."""
    if engine == "ray":
        bench.environ |= {
            "PYTHONPATH": f"{RAY_STAND_IN}:{FIXTURES}",
            "RAY_STAND_IN": "a,b",
            "RAY_AUTH_MODE": "token",
        }
    return OPTIONS[engine]


def each_engine(*, full: tuple[str, ...] = ()) -> Any:
    """Parametrize a test with the engines, those in `full` for the full sweep only."""
    return pytest.mark.parametrize(
        "engine", [pytest.param(name, marks=[pytest.mark.full] * (name in full)) for name in OPTIONS]
    )
