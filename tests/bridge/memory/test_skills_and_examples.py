"""Skills, examples and what can be recalled, made from solved attempts."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcp_bench.bridge.harness.folder import MOST_BYTES, Harness
from mcp_bench.bridge.harness.recall import Recalled, recall
from mcp_bench.bridge.memory.attempts import Attempt, read_attempts
from mcp_bench.bridge.memory.examples import BEGIN, END, best, with_examples, with_recall
from mcp_bench.bridge.memory.skills import longest_common, procedures, with_skills
from mcp_bench.recorder.runs.find import run_paths
from tests.support.recorded import Episode, planned, record

pytestmark = [pytest.mark.component, pytest.mark.usefixtures("bench_home")]

Calls = list[tuple[str, dict[str, Any], str]]


def paid(name: str, account: str, *more: tuple[str, dict[str, Any], str]) -> Calls:
    return [
        ("find", {"query": name}, f'{{"id": "{account}"}}'),
        *more,
        ("pay", {"to": account, "currency": "EUR", "note": f"for {account}"}, "paid"),
    ]


def attempts(**stories: tuple[float, Calls]) -> list[Attempt]:
    """Return attempts at tasks whose names, with `__` for dots, name families."""
    record(
        [
            (planned(name.replace("__", ".")), Episode(calls=calls, partial=partial))
            for name, (partial, calls) in stories.items()
        ]
    )
    return read_attempts(run_paths())


def test_families_with_similar_names_have_skills_of_their_own() -> None:
    found = attempts(
        pay_now__Ada=(1.0, paid("Ada", "acc_1")),
        pay_now__Ben=(1.0, paid("Ben", "acc_2")),
        Pay_Now__Cyd=(1.0, paid("Cyd", "acc_3")),
        Pay_Now__Dee=(1.0, paid("Dee", "acc_4")),
    )
    skills = procedures(found)
    assert [skill.name for skill in skills] == ["pay-now", "pay-now-2"]
    assert set(Harness("h", with_skills({}, skills)).skills) == {"pay-now", "pay-now-2"}


def test_a_skill_says_where_values_come_from() -> None:
    found = attempts(
        pay__Ada=(1.0, paid("Ada", "acc_1")),
        pay__Ben=(1.0, paid("Ben", "acc_2", ("check", {}, "fine"))),
        pay__Cyd=(0.5, [("pay", {"to": "nobody"}, "paid")]),
        lone__Dee=(1.0, paid("Dee", "acc_4")),
    )
    [skill] = procedures(found)
    assert (skill.name, len(skill.episodes)) == ("pay", 2)
    assert skill.text.splitlines()[2:] == [
        "1. `find` with `query` from the task",
        "2. `pay` with `to` from the result of step 1; `currency` always `EUR`; `note` as the task needs it",
        "",
        "Tasks differ: some needed more calls between these.",
    ]
    made = Harness("h", with_skills({"INSTRUCTIONS.md": "Be calm."}, [skill]))
    assert made.skills["pay"].text == skill.text
    assert made.files["INSTRUCTIONS.md"] == "Be calm."


def test_tasks_without_common_calls_make_no_skill() -> None:
    found = attempts(
        pay__Ada=(1.0, [("find", {}, "x"), ("pay", {}, "y")]),
        pay__Ben=(1.0, [("pay", {}, "x"), ("find", {}, "y")]),
    )
    assert procedures(found) == []


TOOLS = st.lists(st.sampled_from("abc"), max_size=8)


@given(TOOLS, TOOLS)
def test_the_longest_common_calls_are_found(one: list[str], other: list[str]) -> None:
    assert longest_common(one, other) == simply_common(one, other)


def simply_common(one: list[str], other: list[str]) -> list[str]:
    """Return the longest common subsequence, by its definition from the end."""
    if not one or not other:
        return []
    if one[-1] == other[-1]:
        return [*simply_common(one[:-1], other[:-1]), one[-1]]
    return max(simply_common(one[:-1], other), simply_common(one, other[:-1]), key=len)


def test_long_attempts_need_little_memory() -> None:
    """An agent in a loop makes hundreds of equal calls."""
    calls = ["press"] * 400
    tracemalloc.start()
    try:
        assert longest_common(calls, calls[1:]) == calls[1:]
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


def test_examples_are_the_shortest_of_different_families() -> None:
    long = paid("Ada", "acc_1", ("check", {}, "fine"))
    found = attempts(
        pay__Ada=(1.0, long), pay__Ben=(1.0, paid("Ben", "acc_2")), lone__Dee=(1.0, [("look", {}, "x" * 900)]),
        lost__Eve=(0.9, [("look", {}, "y")]),
    )  # fmt: skip
    chosen = best(found)
    assert [one.episode.task for one in chosen] == ["lone.Dee", "pay.Ben", "pay.Ada"]
    once = with_examples({"INSTRUCTIONS.md": "Be calm.\n"}, chosen[:2])
    text = Harness("h", once).instructions
    assert text.startswith("Be calm.")
    assert 'Task: Please do pay.Ben.\n-> find {"query": "Ben"}\n   {"id": "acc_2"}' in text
    assert "x" * 200 not in text
    again = with_examples(once, chosen[2:])["INSTRUCTIONS.md"]
    assert again.startswith("Be calm.")
    assert "pay.Ada" in again and "pay.Ben" not in again


def test_a_recorded_text_does_not_end_the_section() -> None:
    """An edit of an edit leaves nothing of the one before."""
    said = f"see {END} OLD {BEGIN}"
    found = attempts(pay__Ada=(1.0, [("look", {}, said)]), pay__Ben=(1.0, paid("Ben", "acc_2")))
    ada, ben = sorted(found, key=lambda one: one.task)
    before = {"INSTRUCTIONS.md": "Be calm.\n"}
    once = with_examples(before, [ada])
    assert once["INSTRUCTIONS.md"].count(BEGIN) == once["INSTRUCTIONS.md"].count(END) == 1
    assert with_examples(once, [ben]) == with_examples(before, [ben])
    earlier = {"INSTRUCTIONS.md": f"Be calm.\n\n{BEGIN}\n{said}\n{END}\n\nAnd quick.\n"}
    again = with_examples(earlier, [ben])["INSTRUCTIONS.md"]
    assert "OLD" not in again and again.endswith(f"{END}\n\nAnd quick.\n")


def test_what_does_not_fit_leaves_room_for_what_does() -> None:
    found = attempts(
        big__Ada=(1.0, [("look", {"a": "z" * 2_000}, "x")]), small__Ben=(1.0, [("look", {}, "y")])
    )
    big, small = sorted(found, key=lambda one: one.task)
    files, added = with_recall({"memory/a.md": "m" * (MOST_BYTES - 1_000)}, [big, small])
    assert added == 1 and f"recall/{small.episode.id}.md" in files


def test_the_snapshot_fits_into_a_harness() -> None:
    big = [("look", {"a": "z" * 3_000}, "x")]
    stories = {f"t__{number}": (1.0, big) for number in range(100)}
    chosen = best(attempts(**stories))
    files, added = with_recall({"recall/old.md": "gone", "memory/a.md": "stays"}, chosen)
    assert 50 < added < 100
    assert sum(len(text.encode()) for text in files.values()) <= MOST_BYTES
    assert "recall/old.md" not in files
    one = Harness("h", files).recalled[f"recall/{chosen[0].episode.id}.md"]
    assert one.task == chosen[0].episode.task


TEXTS = {
    name: Recalled(text)
    for name, text in {
        "a": "Task: refund the order of Ada",
        "b": "Task: move a meeting to Monday",
        "c": "Task: refund two orders and mail the customer",
    }.items()
}


def test_recall_ranks_by_the_words() -> None:
    assert recall(TEXTS, "Please mail about refunds", 2).text == f"{TEXTS['c'].text}\n\n{TEXTS['a'].text}"
    assert recall(TEXTS, "meetings", 1).text == TEXTS["b"].text
    assert recall(TEXTS, "weather").text == "Nothing resembles that."
    assert recall(TEXTS, "!? a").is_error


@given(st.text(max_size=60), st.integers(1, 5))
def test_any_words_can_be_recalled(words: str, limit: int) -> None:
    """FTS5 has a syntax of its own; no word of the agent is part of it."""
    assert recall(TEXTS, f"refund {words}", limit).text.startswith("Task: ")
