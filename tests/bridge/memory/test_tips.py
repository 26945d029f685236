"""Tips by a rule: what they say, what they rest on, and what they leave out."""

from typing import Any

import pytest

from mcp_bench.bridge.memory.attempts import read_attempts
from mcp_bench.bridge.memory.tips import Tip, tips_by_rule
from mcp_bench.recorder.runs.find import run_paths
from mcp_bench.servers.errors import WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = [pytest.mark.component, pytest.mark.usefixtures("bench_home")]

Calls = list[tuple[str, dict[str, Any], str]]


def tips(*attempts: Calls, **options: int) -> list[Tip]:
    """Return the tips from one attempt at each of some tasks."""
    record([(planned(f"task_{number}"), Episode(calls=calls)) for number, calls in enumerate(attempts)])
    return tips_by_rule(read_attempts(run_paths()), **options)


def refused(name: str) -> str:
    return f"!There is no account '{name}'."


@pytest.mark.parametrize(
    ("first", "second", "between", "expected"),
    [
        ({}, {"amount": 5}, [], "pass `amount`"),
        ({"amount": 5, "note": "x"}, {"amount": 5}, [], "leave out `note`"),
        ({"amount": "5"}, {"amount": 5}, [], "pass `amount` as a number, not as a string"),
        (
            {"to": "Ada"},
            {"to": "acc_77"},
            [("find", {}, '[{"id": "acc_77"}]')],
            "take `to` from the result of `find`",
        ),
        ({"amount": 5}, {"amount": 5}, [("unlock", {}, "ok")], "call `unlock` first"),
        ({"note": "x"}, {"amount": 5}, [], "pass `amount`, and leave out `note`"),
    ],
)
def test_a_repair_is_put_into_words(first: Any, second: Any, between: Any, expected: str) -> None:
    attempts = [
        [("transfer", first, refused(name)), *between, ("transfer", second, "done")]
        for name in ("Ada", "Ben")
    ]
    [tip] = tips(*attempts)
    assert tip.text == f"`transfer`: {expected}. Otherwise it answers: !There is no account …."
    assert (tip.tasks, len(tip.episodes), tip.source) == (2, 2, "rule")


def test_names_of_arguments_stay_and_values_go() -> None:
    failed = "!missing argument 'amount' for 'Ada', see ada@bank.example"
    [tip] = tips(*[[("transfer", {}, failed), ("transfer", {"amount": number}, "done")] for number in (1, 2)])
    assert "missing argument 'amount' for …, see …" in tip.text
    assert "Ada" not in tip.text


def test_what_one_task_shows_is_no_tip() -> None:
    """Also if it was tried more than once: a literal of a single task must not get into a harness."""
    calls: Calls = [("transfer", {}, refused("Ada")), ("transfer", {"amount": 1}, "done")]
    stories = [(planned("same", repeat=repeat), Episode(calls=calls)) for repeat in range(3)]
    record(stories)
    assert tips_by_rule(read_attempts(run_paths())) == []


def test_an_error_that_was_only_repeated_is_named() -> None:
    calls: Calls = [("transfer", {"amount": 1}, refused("Ada")), ("transfer", {"amount": 2}, refused("Ben"))]
    [tip] = tips(calls, calls)
    assert tip.text.startswith("`transfer`: do not repeat a call that answers as follows")


@pytest.mark.parametrize(
    "helped",
    [
        [("transfer", {"amount": 2}, "done")],  # another value worked: there are no words for that
        [("transfer", {"to": "x"}, "!It is late."), ("transfer", {"to": "x"}, "done")],
    ],
)
def test_an_error_that_was_mended_once_is_not_said_to_be_hopeless(helped: Calls) -> None:
    repeated: Calls = [
        ("transfer", {"amount": 1}, refused("Ada")),
        ("transfer", {"amount": 1}, refused("Ada")),
    ]
    mended: Calls = [("transfer", {"amount": 1}, refused("Ada")), *helped]
    found = [tip.text for tip in tips(repeated, repeated, mended)]
    assert not any("never helped" in text and "no account" in text for text in found)


def test_another_error_is_no_repetition() -> None:
    """Here the first one was mended, and then something else was wrong."""
    calls: Calls = [("transfer", {}, "!missing argument"), ("transfer", {"amount": 1}, refused("Ada"))]
    assert tips(calls, calls) == []


def test_an_error_without_a_second_try_is_no_tip() -> None:
    assert tips(*[[("transfer", {}, refused("Ada"))]] * 3) == []


def test_the_most_frequent_repair_wins_and_most_limits() -> None:
    def repaired(**after: object) -> Calls:
        return [("transfer", {}, refused("x")), ("transfer", after, "done")]

    other: Calls = [("pay", {}, "!no"), ("pay", {"b": 1}, "done")]
    made = [repaired(amount=1), repaired(amount=2), repaired(to="Ada"), repaired(to="Ben"), repaired(to="Cy")]
    found = tips(*made, other, other)
    assert [tip.text.partition(".")[0] for tip in found] == ["`transfer`: pass `to`", "`pay`: pass `b`"]
    assert len(tips_by_rule(read_attempts(run_paths()), most=1)) == 1


def test_benchmarks_are_not_mixed() -> None:
    """The same tools can be other ones there."""
    for benchmark in ("saasworld", "counter"):
        record([(planned(f"{benchmark}_1"), Episode())], benchmark=benchmark)
    with pytest.raises(WrongUseError, match="choose --benchmark counter or saasworld"):
        read_attempts(run_paths())
    assert [one.task for one in read_attempts(run_paths(), "counter")] == ["counter counter_1"]
    with pytest.raises(WrongUseError, match="did you mean counter"):
        read_attempts(run_paths(), "countr")


def test_only_train_is_learned_from() -> None:
    """Neither other splits, nor invalid or ungraded episodes, nor tasks that forbid training."""
    calls: Calls = [("transfer", {}, refused("Ada")), ("transfer", {"amount": 1}, "done")]
    story = Episode(calls=calls)
    record([(planned(f"{split}_{number}", split), story) for split in ("dev", "test") for number in range(3)])
    record([(planned("invalid"), Episode(calls=calls, partial=None, invalid="world_failed"))])
    record([(planned("ungraded"), Episode(calls=calls, partial=None))])
    record([(planned("forbidden", trainable=False), story)])
    record([(planned("secret"), story)], settings={"jobs": 1, "private_splits": ["train"]})
    with pytest.raises(WrongUseError, match="no graded episode of the split train"):
        read_attempts(run_paths())
