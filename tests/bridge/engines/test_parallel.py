"""How many referee processes a run gets."""

import os

import pytest

from mcp_bench.bridge.engines.parallel import referees

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("wanted", "jobs", "episodes", "number"),
    [
        ("auto", 1, 10_000, 1),
        ("auto", 15, 10_000, 1),
        ("auto", 64, 199, 1),
        ("auto", 16, 200, 2),
        ("auto", 64, 10_000, 4),
        (3, 2, 10, 2),
        (3, 8, 1, 1),
        (8, 8, 8, 8),
        (2, 8, 0, 1),
    ],
)
def test_referees_have_work(
    monkeypatch: pytest.MonkeyPatch, wanted: int, jobs: int, episodes: int, number: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    assert referees(wanted, jobs, episodes) == number
