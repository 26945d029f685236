"""Every task id is a task: no family fails for any number, at any level, in any split.

The normal run builds eight numbers of each family and split, with its levels in turn. The full run builds and
plays 1,000 numbers of each family, level and split (436,000 tasks, about 90 minutes on one core).
"""

from itertools import cycle
from pathlib import Path

import pytest

from mcp_bench.servers.saasworld import BENCHMARK
from mcp_bench.servers.saasworld.authoring.builder import Builder
from mcp_bench.servers.saasworld.authoring.family import Family, family_places, load_family
from mcp_bench.servers.saasworld.engine.seeder import FamilyError
from mcp_bench.servers.saasworld.tasks import FIRST_DAY, MAX_DRAWS, TaskId, build, parse
from mcp_bench.servers.secret import variable
from tests.support.saas import broken, graded, opened, play

pytestmark = pytest.mark.contract

NUMBERS, FULL_NUMBERS = 8, 1000  # eight have every level, and three levels twice

REDRAWN = (
    "finance-budget-limits.1.train.162",
    "finance-budget-limits.1.dev.62",
    "marketing-post-times.2.test.654",
)
"""The first draw of these asks for nothing: the new value is the old one."""


@pytest.fixture
def secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the private split exist."""
    path = tmp_path / "secret"
    path.write_text("a secret of more than sixteen bytes")
    monkeypatch.setenv(variable("saasworld"), str(path))


def splits(family: Family) -> tuple[str, ...]:
    return ("test", "private") if family.held_out else ("train", "dev")


def unsound(task: TaskId) -> list[str]:
    """Return what is wrong with a task; empty if it asks for something, and its reference does just that."""
    try:
        idle = graded(world := opened(str(task)))
    except FamilyError as error:
        return [f"{task}: {error}"]
    found = [f"done at the start: {a.name}" for a in idle.assertions if a.kind == "objective" and a.passed]
    found += [f"broken at the start: {name}" for name in broken(idle)]
    found += ["doing nothing solves it"] if idle.strict or idle.partial else []
    results = play(world, BENCHMARK.reference(str(task)).calls)
    found += [f"refused: {result.text}" for result in results if result.is_error]
    found += [f"the reference does not reach: {a.name}" for a in graded(world).assertions if not a.passed]
    return [f"{task}: {text}" for text in found]


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("name", family_places())
def test_every_number_is_a_task(name: str) -> None:
    family = load_family(name)
    for split in splits(family):
        for number, level in zip(range(NUMBERS), cycle(family.levels), strict=False):
            build(TaskId(name, level, split, number))  # raises if the reference does not solve it


@pytest.mark.full
@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("name", family_places())
def test_a_thousand_numbers_are_tasks(name: str) -> None:
    family = load_family(name)
    places = [(level, split) for level in family.levels for split in splits(family)]
    tasks = (TaskId(name, *place, number) for place in places for number in range(FULL_NUMBERS))
    assert [text for task in tasks for text in unsound(task)] == []


@pytest.mark.parametrize("redrawn", REDRAWN)
def test_a_draw_that_asks_for_nothing_is_drawn_again(redrawn: str) -> None:
    task = parse(redrawn)
    with pytest.raises(FamilyError, match="changed nothing"):
        load_family(task.family).build(Builder(task.seed(), task.half, FIRST_DAY, task.level))
    assert unsound(task) == []


def test_a_family_that_always_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[int] = []

    def fails(b: Builder) -> None:
        drawn.append(b.integer(0, 10**9))
        raise ZeroDivisionError("no budget")

    broken_family = Family(fails, (1,), False, False, "simple", "never")
    monkeypatch.setattr("mcp_bench.servers.saasworld.tasks.load_family", lambda _: broken_family)
    text = rf"task simple-never\.1\.train\.5: none of {MAX_DRAWS} draws .* ZeroDivisionError: no budget"
    with pytest.raises(FamilyError, match=text):
        build(TaskId("simple-never", 1, "train", 5))
    assert len(set(drawn)) == MAX_DRAWS
