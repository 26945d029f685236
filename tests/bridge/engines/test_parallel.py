"""How many referee processes a run gets."""

import os
from types import SimpleNamespace
from typing import Any

import pytest

from mcp_bench.bridge.engines.on_ray.node import without_rays
from mcp_bench.bridge.engines.parallel import Parallel, referees
from mcp_bench.bridge.matrix import plan
from mcp_bench.servers.errors import WrongUseError

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


def test_a_referee_has_the_operators_environment() -> None:
    actor = {"PATH": "/bin", "RAY_AUTH_MODE": "token", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    assert without_rays(actor, {}) == {"PATH": "/bin"}
    own = {"OMP_NUM_THREADS": "4", "RAY_AUTH_MODE": "token"}
    assert without_rays(actor, own) == {"PATH": "/bin", "OMP_NUM_THREADS": "4"}


def test_cells_on_a_cluster_keep_tasks_that_this_machine_cannot_play(monkeypatch: pytest.MonkeyPatch) -> None:
    def planned(_: Any, *, elsewhere: bool) -> tuple[None, range]:
        return None, range(5 if elsewhere else 2)

    monkeypatch.setattr(plan, "planned_episodes", planned)
    choices: Any = SimpleNamespace(**dict.fromkeys(plan._OF_TASKS))
    checks = plan._Checks()
    assert [checks.tasks(choices, elsewhere) for elsewhere in (False, True)] == [2, 5]


def test_an_address_is_for_ray() -> None:
    with pytest.raises(WrongUseError, match="ask for ray, or leave the address out"):
        Parallel(address="head:6379")
