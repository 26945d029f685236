"""What single checks of `check-benchmark` find, called as functions. The command has tests of its own."""

import asyncio
from collections.abc import Iterable
from itertools import count

import anyio
import pytest

from mcp_bench.bridge.check.finding import Finding
from mcp_bench.bridge.check.names import names
from mcp_bench.bridge.check.overlap import overlap
from mcp_bench.bridge.check.sample import sample
from mcp_bench.bridge.check.shortcuts import shortcuts
from mcp_bench.bridge.check.worlds import open_all, schemas
from mcp_bench.servers.errors import BenchError
from mcp_bench.servers.registry import load, registered
from mcp_bench.servers.sdk import (
    AssertionResult,
    Grade,
    Reference,
    SimpleBenchmark,
    SimpleWorld,
    Task,
    ToolCall,
    ToolSpec,
    tool,
)

pytestmark = pytest.mark.component

CITIES = {"France": "Paris", "Peru": "Lima", "Chad": "N'Djamena", "Spain": "Madrid", "Iran": "Tehran"}
OPENED = count()


class Quiz(SimpleWorld):
    def __init__(self, capital: str) -> None:
        self.capital = capital

    @tool
    def look_up(self, country: str) -> str:
        """Say the capital of a country."""
        return CITIES[country]

    def checks(self, answer: str) -> list[AssertionResult]:
        return [AssertionResult(name="capital", passed=self.capital in answer)]


class Brittle(Quiz):
    def checks(self, answer: str) -> list[AssertionResult]:
        if not any(city in answer for city in CITIES.values()):
            raise ValueError("not a city")
        return super().checks(answer)


class Capitals(SimpleBenchmark):
    """One capital of each country, with the three splits."""

    name = "capitals"
    toolset = Quiz.toolset
    asked = "What is the capital of {}?"

    def ids(self, split: str) -> Iterable[str]:
        return [f"{split}-{country}" for country in CITIES]

    def make_task(self, task_id: str) -> Task | None:
        split, _, country = task_id.partition("-")
        if split not in self.splits or country not in CITIES:
            return None
        return Task(
            id=task_id, benchmark=self.name, prompt=self.asked.format(country), split=split, domain="map"
        )

    def make_world(self, task_id: str, seed: int) -> SimpleWorld:
        return Quiz(CITIES[task_id.partition("-")[2]])

    def reference(self, task_id: str) -> Reference | None:
        country = task_id.partition("-")[2]
        calls = (ToolCall(name="look_up", arguments={"country": country}),)
        return Reference(calls=calls, answer=f"It is {CITIES[country]}.")


def tried(benchmark: SimpleBenchmark) -> Finding:
    tasks = sample(benchmark, 5)[0].tasks["train"]
    solutions = {task.id: found for task in tasks if (found := benchmark.reference(task.id))}
    return anyio.run(shortcuts, benchmark, tasks, solutions, 0)


class Misspelt(Capitals):
    own_file = True
    license = "MIT"
    install = "pip install capitals"
    installed = private = True

    def prepare_splits(self, split: str) -> str:
        return split


def test_attributes_that_are_nearly_optional_parts_are_named() -> None:
    finding = names(Misspelt())
    assert (finding.verdict, finding.summary) == ("warning", "optional parts: install")
    assert finding.reasons == (
        "mcp-bench does not read 'license': did you mean 'licence'?",
        "mcp-bench does not read 'own_file': did you mean 'own_files'?",
        "mcp-bench does not read 'prepare_splits': did you mean 'prepare_split'?",
    )


def test_no_listed_benchmark_has_a_misspelt_part() -> None:
    reasons = {name: names(load("benchmark", name)).reasons for name in registered("benchmark")}
    assert not any(reasons.values()), reasons


def test_tasks_that_need_a_look_have_no_shortcut() -> None:
    found = tried(Capitals())
    assert (found.verdict, found.summary) == ("ok", "partial 0.000, strict 0/15 without looking")


def test_a_prompt_that_has_its_answer_is_a_shortcut() -> None:
    class Choices(Capitals):
        asked = "Is the capital of {} Paris or Lima?"

    found = tried(Choices())
    assert found.verdict == "warning" and found.figures == {"partial": round(2 / 15, 4)}
    assert list(found.reasons) == [
        "train-France is solved by its prompt as the answer",
        "train-Peru is solved by its prompt as the answer",
    ]


def test_a_solution_that_fits_other_tasks_is_a_shortcut() -> None:
    class Always(Capitals):
        def make_world(self, task_id: str, seed: int) -> SimpleWorld:
            return Quiz("Lima")

        def reference(self, task_id: str) -> Reference:
            return Reference(answer="It is Lima.")

    reasons = tried(Always()).reasons
    assert "train-France is solved by the solution of train-Peru" in reasons and reasons[-1] == "and 5 more"


def test_a_grade_that_breaks_on_other_answers_is_named() -> None:
    class Strict(Capitals):
        def make_world(self, task_id: str, seed: int) -> SimpleWorld:
            return Brittle(CITIES[task_id.partition("-")[2]])

    reasons = tried(Strict()).reasons
    assert reasons[0] == "train-France breaks on its prompt as the answer: ValueError: not a city"


@pytest.mark.parametrize("error", [SystemExit(3), asyncio.CancelledError("a task of its own")])
def test_worlds_that_break_are_tried_no_further(error: BaseException) -> None:
    class Broken(Capitals):
        def make_world(self, task_id: str, seed: int) -> SimpleWorld:
            raise error

    opened = anyio.run(open_all, Broken(), list(Broken().tasks("train", 1)), 0)
    assert opened.broken == {"train-France": f"{type(error).__name__}: {error}"}
    found = tried(Broken())
    assert (
        f"train-France breaks on its prompt as the answer: {type(error).__name__}: {error}" in found.reasons
    )


class OneAtATime(Capitals):
    """Its worlds need something that there is once, such as a port."""

    def __init__(self) -> None:
        self.taken = False

    def make_world(self, task_id: str, seed: int) -> SimpleWorld:
        if self.taken:
            raise RuntimeError("the port is taken")
        self.taken, made, benchmark = True, Quiz("Paris"), self

        async def close() -> None:
            benchmark.taken = False

        made.close = close  # type: ignore[method-assign]
        return made


def test_a_world_is_closed_if_its_twin_does_not_open() -> None:
    benchmark = OneAtATime()
    tasks = [task for task in benchmark.tasks("train") if task.id in ("train-Peru", "train-Chad")]
    opened = anyio.run(open_all, benchmark, tasks, 0)
    assert set(opened.broken.values()) == {"RuntimeError: the port is taken"}
    assert (len(opened.opens), benchmark.taken) == (2, False)


def test_what_differs_in_no_recording_is_deterministic() -> None:
    class Timed(Quiz):
        def __init__(self, capital: str) -> None:
            super().__init__(capital)
            self.loss = float("nan")

        async def grade(self, answer: str) -> Grade:
            grade = await super().grade(answer)
            return grade.model_copy(update={"metrics": {"loss": float("nan"), "opened": float(next(OPENED))}})

    class Timing(Capitals):
        replay_ignores = ("opened",)

        def make_world(self, task_id: str, seed: int) -> SimpleWorld:
            return Timed(CITIES[task_id.partition("-")[2]])

    opened = anyio.run(open_all, Timing(), list(Timing().tasks("train", 1)), 0)
    assert (opened.different, opened.broken) == ([], {})


def test_tasks_that_cannot_be_made_are_named() -> None:
    class Unmade(Capitals):
        def make_task(self, task_id: str) -> Task | None:
            if task_id == "dev-Peru":
                raise KeyError("row 7")
            return super().make_task(task_id)

    sampled, found = sample(Unmade(), 5)
    assert (found.verdict, list(found.reasons)) == ("failed", ["dev#2 fails: KeyError: 'row 7'"])
    assert [len(tasks) for tasks in sampled.tasks.values()] == [5, 4, 5]


def test_a_benchmark_of_other_splits_is_named() -> None:
    class Graded(Capitals):
        splits = ("easy", "hard")

    found = sample(Graded(), 5)[1]
    assert "it has none of the splits train, dev, test: only these can be checked" in found.reasons


def test_tools_that_cannot_be_listed_are_an_error() -> None:
    class Toolless(Capitals):
        def tools(self) -> list[ToolSpec]:
            raise OSError("no tools")

    opened = anyio.run(open_all, Toolless(), list(Toolless().tasks("train", 1)), 0)
    with pytest.raises(BenchError, match="benchmark 'capitals' cannot list its tools: OSError: no tools"):
        schemas(Toolless(), opened)


def test_splits_that_cannot_be_compared_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Capitals):
        def ids(self, split: str) -> Iterable[str]:
            return super().ids(split) if split == "train" else (f"{split}-Peru" for _ in count())

        def reference(self, task_id: str) -> Reference | None:
            raise ZeroDivisionError("no reference")

    monkeypatch.setattr("mcp_bench.bridge.check.overlap.MOST_TASKS", 100)
    tasks = {split: list(Endless().tasks(split, 1)) for split in ("train", "dev", "test")}
    found = overlap(Endless(), tasks, {})
    assert (found.verdict, list(found.reasons)) == (
        "failed",
        [f"{split} cannot be compared: it has more than 100 tasks" for split in ("test", "dev")],
    )
    monkeypatch.setattr("mcp_bench.bridge.check.overlap.MOST_TASKS", 1_000)
    monkeypatch.setattr(Endless, "ids", Capitals.ids)
    found = overlap(Endless(), tasks, {})
    assert list(found.reasons) == [
        f"{split} cannot be compared: ZeroDivisionError: no reference" for split in ("test", "dev")
    ]
