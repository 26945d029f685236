"""Each rule of `mcp-bench export`, on small stores."""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.curation.reasoning import without_reasoning
from mcp_bench.recorder.trajectory import FunctionCall, Message, ToolCall, Trajectory
from mcp_bench.servers.contracts import Score
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
Export = Callable[..., tuple[list[dict[str, Any]], dict[str, Any]]]


@pytest.fixture
def exported(invoke: Invoke, tmp_path: Path) -> Export:
    """Export, and return the rows and the funnel of the manifest."""

    def run(*options: str | int | float) -> tuple[list[dict[str, Any]], dict[str, Any]]:
        out = tmp_path / "rows.jsonl"
        result = invoke(export, *map(str, options), "--out", out, "--force")
        assert result.exit_code == 0, result.exception
        manifest = json.loads((tmp_path / "rows.jsonl.manifest.json").read_text())
        rows = [json.loads(line) for line in out.read_text().splitlines()]
        funnel = manifest["funnel"]
        assert funnel["rows_in"] - sum(funnel["dropped"].values()) == funnel["rows_out"] == len(rows)
        assert [row["id"] for row in rows] == manifest["episodes"]
        return rows, funnel

    return run


def said(answer: str) -> list[Message]:
    return [Message(role="assistant", content=answer)]


def attempts(task: str, *partials: float) -> list[Any]:
    """Attempts at one task that have no words in common."""
    return [
        (
            planned(task, repeat=n),
            Episode(
                partial=p,
                calls=[("transfer", {"note": f"{task}{n}{word}"}, "done") for word in "abcde"[: n + 1]],
                transcript=said(" ".join(f"{word}{task}{n}" for word in "abcdefghijkl")),
            ),
        )
        for n, p in enumerate(partials)
    ]


def grades(rows: Sequence[dict[str, Any]], task: str) -> list[float]:
    return [row["partial"] for row in rows if row["task"] == task]


def test_filters_by_model_and_domain(exported: Export) -> None:
    record([(planned("a"), Episode())], model="base")
    record([(planned("b"), Episode())], model="tuned")
    rows, funnel = exported("--model", "tuned", "--domain", "banking")
    assert [row["task"] for row in rows] == ["b"]
    assert (funnel["dropped"]["other_model"], funnel["dropped"]["other_domain"]) == (1, 0)


def test_a_measured_score_is_asked_of_solved_episodes_alone(exported: Export) -> None:
    """`--strict` comes first, so what unsolved ones measured does not matter."""
    scores = [Score(name=name, value=4, better="lower") for name in ("latency", "latency", "size")]
    partials = [1.0, 0.9, 0.9]
    record(
        [
            (planned(f"t{n}"), Episode(partial=partial, score=score))
            for n, (partial, score) in enumerate(zip(partials, scores, strict=True))
        ]
    )
    rows, funnel = exported("--min-score", 5, "--strict")
    assert [row["task"] for row in rows] == ["t0"]
    assert (funnel["dropped"]["not_strict"], funnel["dropped"]["low_score"]) == (2, 0)


@pytest.mark.parametrize(("option", "name"), [("--model", "tunde"), ("--domain", "bankin")])
def test_unknown_names_are_refused(invoke: Invoke, tmp_path: Path, option: str, name: str) -> None:
    record([(planned("b"), Episode())], model="tuned")
    result = invoke(export, option, name, "--out", tmp_path / "o")
    assert isinstance(result.exception, UnknownNameError)
    assert f"{option[2:]} of recordings" in str(result.exception) and "did you mean" in str(result.exception)


def test_the_agent_of_an_episode_overrides_that_of_its_run(exported: Export) -> None:
    """In interactive use, each client reports its name."""
    folder, _ = record([(planned("a"), Episode()), (planned("b"), Episode())], agent="hand")
    with closing(sqlite3.connect(folder.path / "recordings.db")) as db, db:
        db.execute("UPDATE episodes SET agent = 'codex' WHERE task = 'b'")
    rows, funnel = exported("--agent", "codex")
    assert ([row["task"] for row in rows], funnel["dropped"]["other_agent"]) == (["b"], 1)


def test_isolation(exported: Export) -> None:
    for level in ("none", "landlock", "bwrap", "something new"):
        record([(planned(level), Episode())], isolation=level)
    rows, funnel = exported("--require-isolation", "landlock")
    assert [row["task"] for row in rows] == ["landlock", "bwrap"]
    assert funnel["dropped"]["isolation_too_weak"] == 2


def test_episodes_with_many_failed_calls_are_dropped(exported: Export) -> None:
    for task, failed in (("fine", 0), ("edge", 1), ("spiral", 3)):
        calls = [("transfer", {"n": n}, "!refused" if n < failed else "done") for n in range(4)]
        record([(planned(task), Episode(calls=calls))])
    record([(planned("idle"), Episode(calls=()))])
    rows, funnel = exported("--max-error-share", 0.25)
    assert {row["task"] for row in rows} == {"fine", "edge", "idle"}
    assert funnel["dropped"]["too_many_errors"] == 1


def test_the_best_of_each_task(exported: Export) -> None:
    record([*attempts("a", 0.6, 1.0, 0.8, 1.0), *attempts("b", 0.7)])
    rows, funnel = exported("--best", 2)
    assert (grades(rows, "a"), grades(rows, "b"), funnel["dropped"]["not_best"]) == ([1.0, 1.0], [0.7], 2)
    (best, _), _ = exported("--best", 1)
    assert best["messages"][-1]["content"].startswith("aa1 ")  # of two equal grades, the one with fewer calls


def test_attempts_with_less_than_the_best_partial_score_are_dropped(exported: Export) -> None:
    """An attempt that another rule drops does not count, such as the only one that solves `c`."""
    record([*attempts("a", 0.6, 1.0, 0.8, 1.0), *attempts("b", 0.7, 0.6, 0.7), *attempts("c", 0.5)])
    record([(planned("c"), Episode(calls=[("transfer", {}, "!refused")]))])
    rows, funnel = exported("--best-partial", "--max-error-share", 0.5)
    assert (grades(rows, "a"), grades(rows, "b"), grades(rows, "c")) == ([1.0, 1.0], [0.7, 0.7], [0.5])
    assert funnel["dropped"]["not_best_partial"] == 3


def test_a_dropped_attempt_does_not_count_for_best(exported: Export) -> None:
    """Duplicates are dropped before the best attempts are chosen."""
    twice = [(planned("a", repeat=n), Episode()) for n in (10, 11)]
    record([*attempts("a", 0.6, 0.7), *twice])
    rows, funnel = exported("--best", 2, "--dedupe", "exact")
    assert grades(rows, "a") == [0.7, 1.0]
    assert funnel["dropped"]["exact_duplicate"] == 1
    assert funnel["dropped"]["not_best"] == 1


def test_caps_keep_a_random_sample(exported: Export) -> None:
    partials = [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    for task in ("mail.1", "mail.2", "mail.3", "files.1"):
        record(attempts(task, *partials))
    rows, funnel = exported("--max-per-task", 4)
    assert Counter(row["task"] for row in rows) == {"mail.1": 4, "mail.2": 4, "mail.3": 4, "files.1": 4}
    assert funnel["dropped"]["over_task_cap"] == 8
    assert len({tuple(grades(rows, task)) for task in ("mail.1", "mail.2", "mail.3", "files.1")}) > 1
    rows, funnel = exported("--max-per-family", 4)
    assert {row["task"] for row in rows} == {"mail.1", "mail.2", "mail.3", "files.1"}
    assert Counter(row["task"].partition(".")[0] for row in rows) == {"mail": 4, "files": 4}
    assert funnel["dropped"]["over_family_cap"] == 16
    again, _ = exported("--max-per-family", 4)
    assert again == rows
    for seed in range(1, 6):
        other, _ = exported("--max-per-family", 4, "--seed", seed)
        assert other != rows
        of_mail = Counter(row["task"] for row in other if row["task"] != "files.1")
        assert sorted(of_mail.values()) == [1, 1, 2]  # spread over as many tasks as possible


def test_tasks_without_a_dot_have_their_domain_as_family(exported: Export) -> None:
    record([*attempts("a", 1.0), *attempts("b", 1.0)])
    rows, _ = exported("--max-per-family", 1)
    assert len(rows) == 1


def test_cohorts_have_the_same_tasks(exported: Export) -> None:
    record([*attempts("a", 0.1, 0.5, 0.9, 1.0), *attempts("b", 0.2, 0.3), *attempts("same", 0.5, 0.5)])
    cohorts = {which: exported("--cohort", which, "--size", 3)[0] for which in ("high", "low", "random")}
    assert (grades(cohorts["high"], "a"), grades(cohorts["high"], "b")) == ([0.9, 1.0], [0.3])
    assert (grades(cohorts["low"], "a"), grades(cohorts["low"], "b")) == ([0.1, 0.5], [0.2])
    assert Counter(row["task"] for row in cohorts["random"]) == {"a": 2, "b": 1}


def test_a_cohort_that_is_too_large_is_refused(invoke: Invoke, tmp_path: Path) -> None:
    record([*attempts("a", 0.1, 1.0), *attempts("same", 0.5, 0.5)])
    result = invoke(export, "--cohort", "low", "--size", 2, "--out", tmp_path / "o")
    assert isinstance(result.exception, WrongUseError)
    assert "there are 1 (in 1 of 2 tasks)" in str(result.exception)
    assert not (tmp_path / "o").exists()


def test_reasoning(exported: Export) -> None:
    call = ToolCall(id="t", function=FunctionCall(name="transfer", arguments={"amount": 12.5}))
    transcript = [
        Message(role="assistant", reasoning="Only thought."),
        Message(role="assistant", reasoning="I should pay.", tool_calls=[call]),
        Message(role="assistant", reasoning="Done?", content="I sent the money."),
    ]
    record([(planned(), Episode(transcript=transcript))])
    assert [row.get("reasoning_content") for row in exported()[0][0]["messages"]] == [
        None, "Only thought.", "I should pay.", None, "Done?",
    ]  # fmt: skip
    ((row,), _) = exported("--reasoning", "drop")
    assert [message["role"] for message in row["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert not any("reasoning_content" in message for message in row["messages"])


def test_a_turn_of_thoughts_alone_still_ends_where_the_user_speaks_again() -> None:
    said = [
        Message(role="user", content="Pay."),
        Message(role="assistant", reasoning="Nothing to say."),
        Message(role="user", content="Well?"),
        Message(role="assistant", reasoning="Nothing again."),
    ]
    kept = without_reasoning(Trajectory.model_construct(messages=said)).messages
    assert [(message.role, message.content) for message in kept] == [
        ("user", "Pay."), ("assistant", None), ("user", "Well?")
    ]  # fmt: skip


def test_dropping_reasoning_can_make_conversations_equal(exported: Export) -> None:
    for thought in ("One way.", "Another way."):
        record(
            [(planned(), Episode(transcript=[Message(role="assistant", reasoning=thought, content="Done.")]))]
        )
    assert len(exported("--dedupe", "exact")[0]) == 2
    assert len(exported("--dedupe", "exact", "--reasoning", "drop")[0]) == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--dedupe", "nearly"), "did you mean near"),
        (("--cohort", "hihg", "--size", "1"), "did you mean high"),
        (("--cohort", "high"), "without --size"),
        (("--size", "5"), "without --cohort"),
        (("--max-tokens", "5"), "without --tokenizer"),
        (("--best", "0"), "--best is 0"),
        (("--redact", "secret"), "did you mean secrets"),
        (("--require-isolation", "landlok"), "did you mean landlock"),
        (("--reasoning", "hide"), "known: drop, keep"),
        (("--tokenizer", "no-such-file", "--max-tokens", "5"), "no-such-file"),
    ],
)
def test_invalid_options_are_refused(
    invoke: Invoke, tmp_path: Path, options: tuple[str, ...], words: str
) -> None:
    result = invoke(export, *options, "--out", tmp_path / "o")
    assert isinstance(result.exception, WrongUseError), result.output
    assert words in str(result.exception)
    assert result.exception.exit_code == 2


@pytest.mark.parametrize(
    "option", ["--similarity", "--max-error-share", "--min-partial", "--min-score", "--margin"]
)
def test_numbers_are_finite(invoke: Invoke, tmp_path: Path, option: str) -> None:
    result = invoke(export, option, "nan", "--out", tmp_path / "o")
    assert result.exit_code == 2
    assert f"Invalid value for '{option}': nan is not a finite number" in result.output
