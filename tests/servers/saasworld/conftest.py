"""Every family at every level, with one seed in the normal run and twenty in the full one."""

import pytest

from tests.support.saas import kinds, task_id

SEEDS = 1
FULL_SEEDS = 20


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `task` or `kind` for all families, also for those added later."""
    if "task" in metafunc.fixturenames:
        cases = []
        for kind in kinds():
            for number in range(seeds(metafunc.config)):
                marks = [pytest.mark.full] if number >= SEEDS else []
                cases.append(pytest.param(task_id(kind, number), marks=marks))
        metafunc.parametrize("task", cases)
    if "kind" in metafunc.fixturenames:
        metafunc.parametrize("kind", kinds(), ids=lambda kind: f"{kind[0]}.{kind[1]}")


def seeds(config: pytest.Config) -> int:
    """Return how many seeds are collected: forty thousand tests only to deselect them take each worker long."""
    return SEEDS if "not full" in config.getoption("markexpr") else FULL_SEEDS
