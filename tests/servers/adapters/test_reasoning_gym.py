"""reasoning-gym in its environment, which MCP_BENCH_PYTHON_REASONING_GYM names: `make environments` builds it."""

from collections import defaultdict
from itertools import islice

import pytest

from mcp_bench.servers.adapters.remotes import REASONING_GYM
from tests.support.requirements import skip

pytestmark = [pytest.mark.component, pytest.mark.anyio]


@pytest.fixture(autouse=True)
def installed() -> None:
    if reason := REASONING_GYM.missing():
        skip("reasoning-gym", reason)


async def solved_by_reference(count: int) -> None:
    for split in ("test", "dev", "train"):
        for task in islice(REASONING_GYM.tasks(split), count):
            reference = REASONING_GYM.reference(task.id)
            assert reference is not None
            world = await REASONING_GYM.open(task.id)
            for answer in ("", "__import__('os').getpid()"):
                grade = await world.grade(answer)
                assert not grade.strict, (task.id, answer)
                assert answer or grade.partial == 0, task.id
            await world.call("submit_answer", {"answer": reference.answer})
            assert (await world.grade("")).strict, task.id
            await world.close()
    await REASONING_GYM.aclose()


async def test_stored_answers_solve_and_nothing_does_not() -> None:
    await solved_by_reference(6)


@pytest.mark.full
async def test_every_generator_is_solved_by_its_answer() -> None:
    await solved_by_reference(240)


CONSTANTS = ("nan", "NaN", "nan + nanj", "inf", "1e999", "1e8000000", "[]", "{}", "0", "null", "6*4*1*1")


@pytest.mark.full
async def test_no_constant_solves_every_puzzle_of_a_generator() -> None:
    solved: dict[tuple[str, str], list[bool]] = defaultdict(list)
    for split in ("test", "dev"):
        for task in REASONING_GYM.tasks(split):
            reference = REASONING_GYM.reference(task.id)
            assert reference is not None
            as_many = f"[{', '.join(['NaN'] * (reference.answer.count(',') + 1))}]"
            world = await REASONING_GYM.open(task.id)
            for answer in (*CONSTANTS, as_many):
                kind = "as many" if answer is as_many else answer
                solved[task.domain, kind].append((await world.grade(answer)).strict)
            await world.close()
    await REASONING_GYM.aclose()
    assert solved and not [generator for generator, grades in solved.items() if all(grades)]


def test_test_has_generators_of_its_own() -> None:
    domains = {split: {task.domain for task in REASONING_GYM.tasks(split, 80)} for split in ("train", "test")}
    assert not domains["train"] & domains["test"]
    assert {len(domains["train"]), len(domains["test"])} == {72, 24}
