"""Every family in the normal run at its highest level with one seed; in the full one at all levels with twenty.

`test_task_digests.py` builds tasks of all levels in the normal run, too.
"""

import pytest

from tests.support.saas import kinds, task_id

SEEDS = 1
FULL_SEEDS = 20
ALL_LEVELS = {"test_the_reference_solution_scores_one_without_refusals"}
"""Tests that run at every level in the normal run, too."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that takes `task` or `kind` for all families, also for those added later.

    Forty thousand tests that are only deselected would take each worker half a minute, so the normal run does not
    collect them.
    """
    whole = "not full" not in metafunc.config.getoption("markexpr")
    highest = {family: level for family, level, _ in sorted(kinds())}
    everywhere = metafunc.definition.originalname in ALL_LEVELS
    usual = [kind for kind in kinds() if everywhere or kind[1] == highest[kind[0]]]
    chosen = kinds() if whole else usual
    if "task" in metafunc.fixturenames:
        cases = []
        for kind in chosen:
            for number in range(FULL_SEEDS if whole else SEEDS):
                marks = [] if number < SEEDS and kind in usual else [pytest.mark.full]
                cases.append(pytest.param(task_id(kind, number), marks=marks))
        metafunc.parametrize("task", cases)
    if "kind" in metafunc.fixturenames:
        cases = [
            pytest.param(kind, id=f"{kind[0]}.{kind[1]}", marks=[] if kind in usual else [pytest.mark.full])
            for kind in chosen
        ]
        metafunc.parametrize("kind", cases)
