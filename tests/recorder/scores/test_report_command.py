import json
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from mcp_bench.recorder.cli.export import export
from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.errors import StorageError
from mcp_bench.recorder.runs.reader import RunReader
from mcp_bench.recorder.runs.run_folder import RunFolder
from mcp_bench.recorder.scores.scores import summarise
from mcp_bench.servers.errors import UnknownNameError, WrongUseError
from tests.support.pages.terminal import on_terminal
from tests.support.recorded import Episode, begin, planned, play, record, run_info

pytestmark = pytest.mark.system

Invoke = Callable[..., Result]
CALLS = (("transfer", {"amount": 1}, "ok"), ("transfer", {"amount": 2}, "ok"))


BROKEN = Episode(partial=None, invalid="endpoint_error", calls=())


def rows(invoke: Invoke, *options: str) -> list[dict[str, Any]]:
    result = invoke(report, *options, "--json")
    assert result.exit_code == 0, result.exception
    found: list[dict[str, Any]] = json.loads(result.stdout)
    return found


def test_scores_counts_and_invalid_episodes(invoke: Invoke) -> None:
    stories = [
        (planned("a"), Episode(partial=1.0, calls=CALLS)),
        (planned("b"), Episode(partial=0.5, calls=CALLS)),
        (planned("c"), Episode(partial=0.0, calls=())),
        (planned("d"), Episode(partial=None, invalid="endpoint_error", calls=())),
    ]
    record(stories, agent="codex", model="gpt-x")
    (row,) = rows(invoke)
    assert {name: row[name] for name in ("agent", "model", "benchmark", "split", "isolation")} == {
        "agent": "codex", "model": "gpt-x", "benchmark": "agentdojo", "split": "train", "isolation": "none",
    }  # fmt: skip
    assert (row["episodes"], row["invalid"], row["tasks"], row["tool_calls"]) == (4, 1, 3, 4)
    assert (row["partial"], row["strict"]) == (0.5, pytest.approx(1 / 3))
    assert (row["partial_invalid_as_0"], row["strict_invalid_as_0"]) == (1.5 / 4, 1 / 4)
    low, high = row["partial_ci"]
    assert 0 <= low < 0.5 < high <= 1
    assert (row["invalid_reasons"], row["terminations"]) == ({"endpoint_error": 1}, {"agent_exit": 3})
    assert (row["input_tokens"], row["output_tokens"], row["cost_usd"]) == (40, 8, None)
    assert row["pass_k"] == []
    assert rows(invoke) == [row]  # reproducible


def test_failures_are_shown(invoke: Invoke) -> None:
    refused = Episode(partial=0.0, calls=(("transfer", {"amount": 1}, "!no money"), *CALLS))
    record([(planned("a"), refused), (planned("b"), BROKEN), (planned("c"), BROKEN)])
    (row,) = rows(invoke)
    assert (row["tool_calls"], row["failed_calls"]) == (3, 1)
    _, header, row_shown = invoke(report).stdout.splitlines()
    assert header.split()[-8:] == ["calls", "failed", "time", "tokens", "in", "/", "out", "errors"]
    calls, failed, _, *rest = row_shown.split()[-9:]
    assert (calls, failed, rest) == ("3", "1", ["s", "30", "/", "6", "2", "endpoint_error"])


def test_repeated_attempts(invoke: Invoke) -> None:
    """Three attempts at each of two tasks, one solved twice and one never, and one invalid attempt."""
    scores = {"a": (1.0, 0.5, 1.0), "b": (0.0, 0.9, 0.0)}
    stories = [
        (planned(task, repeat=n), Episode(partial=p)) for task in scores for n, p in enumerate(scores[task])
    ]
    record([*stories, (planned("a", repeat=3), BROKEN)], model="m")
    (row,) = rows(invoke)
    found = {entry["k"]: (entry["tasks"], entry["pass_at_k"], entry["pass_hat_k"]) for entry in row["pass_k"]}
    assert found == {
        1: (2, pytest.approx(1 / 3), pytest.approx(1 / 3)),
        2: (2, 0.5, pytest.approx(1 / 6)),  # one of three pairs of attempts at a has both solved
        3: (2, 0.5, 0.0),
    }
    assert row["pass_k"][1]["pass_at_k_ci"] == [0.0, 1.0]
    assert "0.500 / 0.000 (k=3)" in invoke(report).output
    record([(planned("a"), Episode())], model="other")
    (mixed,) = rows(invoke, "--by", "agent")
    assert (mixed["model"], mixed["pass_k"]) == ("*", [])  # pass@k is about a single model


def test_grouping(invoke: Invoke) -> None:
    record([(planned("a"), Episode()), (planned("b", split="test"), Episode(partial=0.0))], agent="codex")
    record([(planned("a"), Episode(partial=0.2))], agent="oracle")
    assert [(r["agent"], r["split"], r["partial"]) for r in rows(invoke)] == [
        ("codex", "test", 0.0), ("codex", "train", 1.0), ("oracle", "train", 0.2),
    ]  # fmt: skip
    by_agent = rows(invoke, "--by", "agent")
    assert [(r["agent"], r["split"], r["benchmark"], r["partial"]) for r in by_agent] == [
        ("codex", "*", "agentdojo", 0.5), ("oracle", "train", "agentdojo", 0.2),
    ]  # fmt: skip
    text = invoke(report, "--by", "agent, agent").output
    assert text == invoke(report, "--by", "agent").output
    result = invoke(report, "--by", "agnt")
    assert isinstance(result.exception, UnknownNameError)
    assert "agent" in str(result.exception)


def test_one_task_has_no_interval(invoke: Invoke) -> None:
    record([(planned("a", repeat=n), Episode(partial=n / 4)) for n in range(3)])
    (row,) = rows(invoke)
    assert (row["partial"], row["partial_ci"], row["strict_ci"]) == (0.25, None, None)


def test_the_table(invoke: Invoke) -> None:
    record([(planned("a"), Episode()), (planned("b"), Episode(partial=0.5))], model="ev\x1b[31mil[bold]")
    result = invoke(report)
    assert result.exit_code == 0, result.exception
    assert "0.750" in result.output
    assert "\x1b" not in result.output
    assert r"ev\x1b[31mil[bold]" in result.output


@pytest.mark.parametrize("columns", [40, 80])
def test_a_narrow_terminal_shows_everything(columns: int) -> None:
    stories = [(planned("a"), Episode()), (planned("b"), Episode(partial=0.5)), (planned("c"), BROKEN)]
    record(stories, agent="claude-code", model="a-model")
    shown = on_terminal(columns, "report")
    shown = " ".join(shown.split())
    for text in ("benchmark agentdojo, split train, isolation none", "claude-code a-model",
                 "0.750 [0.500, 1.000]", "inv. as 0 0.500 / 0.333", "episodes 3, invalid 1",
                 "errors 1 endpoint_error"):  # fmt: skip
        assert text in shown, shown


def test_a_wide_terminal_has_a_table() -> None:
    record([(planned("a"), Episode()), (planned("b"), Episode(partial=0.5))], agent="claude-code")
    above, header, row = on_terminal(200, "report").splitlines()
    assert above == "benchmark agentdojo, split train, isolation none, verified none"
    assert header.split() == [
        "agent", "episodes", "partial", "strict", "calls", "time", "tokens", "in", "/", "out",
    ]  # fmt: skip
    assert "claude-code" in row and "0.750 [0.500, 1.000]" in row


def test_incomplete_runs_are_named(invoke: Invoke) -> None:
    with RunFolder.create(run_info(planned("a"), planned("b"))) as folder:
        begin(folder, planned("a"))
        assert "not done yet (it is being recorded)" in invoke(report).stderr
    result = invoke(report, "--json")
    assert f"{folder.id}: 2 of 2 planned episodes are not done yet" in result.stderr
    assert f"--resume {folder.id}" in result.stderr


def test_without_recordings_it_explains_how_to_record(invoke: Invoke) -> None:
    result = invoke(report)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "mcp-bench record" in result.output
    assert rows(invoke) == []


def test_twenty_eight_thousand_episodes_are_all_counted(invoke: Invoke) -> None:
    """SQL inserts rows as the recorder writes them."""
    folder, _ = record([(planned("seed"), Episode())])
    count = 28_800
    with closing(sqlite3.connect(folder.path / "recordings.db")) as db, db:
        db.execute("PRAGMA synchronous = OFF")
        columns = [row[1] for row in db.execute("PRAGMA table_info(episodes)")]
        picked = [
            {"id": "'n' || n", "task": "'t' || (n / 3)", "repeat": "n"}.get(c, f"e.{c}") for c in columns
        ]
        numbers = f"WITH RECURSIVE i(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM i WHERE n < {count})"
        db.execute(
            f"INSERT INTO episodes {numbers} SELECT {', '.join(picked)} FROM i, (SELECT * FROM episodes) e"
        )
    with closing(sqlite3.connect(folder.path / "grades.db")) as db, db:
        db.execute(
            "INSERT INTO grades (episode, partial, strict, assertions, metrics, grader_version, final_state,"
            f" graded_us) {numbers} SELECT 'n' || n, 0.5, 0, '[]', '{{}}', 'g1', 'null', 1 FROM i"
        )
    (row,) = rows(invoke)
    assert row["episodes"] == count + 1


def test_a_damaged_run_is_named_and_others_are_reported(invoke: Invoke) -> None:
    folder, _ = record([(planned(), Episode())])
    (folder.path.parent / "run_damaged").mkdir()
    (folder.path.parent / "run_damaged" / "recordings.db").write_bytes(b"not a database, " * 99)
    result = invoke(report, "--json")
    assert [row["episodes"] for row in json.loads(result.stdout)] == [1]
    assert result.exit_code == 1
    assert "run_damaged" in result.stderr


def test_a_damaged_row_is_named_and_other_runs_are_reported(invoke: Invoke) -> None:
    record([(planned(), Episode())])
    damaged, _ = record([(planned(), Episode())])
    with closing(sqlite3.connect(damaged.path / "recordings.db")) as db, db:
        db.execute("UPDATE episodes SET usage = '{\"input_tokens\":'")
    result = invoke(report, "--json")
    assert [row["episodes"] for row in json.loads(result.stdout)] == [1]
    assert result.exit_code == 1
    assert f"{damaged.path} has a damaged row" in result.stderr
    assert f"mcp-bench verify {damaged.path.name}" in result.stderr


def test_an_ungraded_run_is_complete_when_its_episodes_end(invoke: Invoke) -> None:
    record([(planned(), Episode(partial=None))], graded=False)
    result = invoke(report, "--json")
    (row,) = json.loads(result.stdout)
    assert (row["episodes"], row["ungraded"], row["partial"]) == (1, 1, None)
    assert result.stderr == ""


CONDITIONS: tuple[tuple[str, dict[str, Any], dict[str, Any]], ...] = (
    ("tools_mode", {"tools": "mcp-only"}, {"tools": "all"}),
    ("isolation", {"isolation": "none"}, {"isolation": "landlock"}),
    ("home", {"home": "sealed"}, {"home": "native"}),
    ("harness", {"settings": {"timeout": 900.0}}, {"settings": {"timeout": 60.0}}),
    ("harness", {"settings": {"options": {"effort": "low"}}}, {"settings": {"options": {"effort": "high"}}}),
    ("harness", {"settings": {"max_calls": None}}, {"settings": {"max_calls": 5}}),
)


@pytest.mark.parametrize(("name", "one", "other"), CONDITIONS)
def test_rows_never_pool_different_conditions(
    invoke: Invoke, name: str, one: dict[str, Any], other: dict[str, Any]
) -> None:
    """The same task, attempted twice: solved under one condition, failed under the other."""
    record([(planned("a"), Episode())], **one)
    record([(planned("a"), Episode(partial=0.0))], **other)
    for options in ((), ("--by", "agent"), ("--by", "")):
        found = rows(invoke, *options)
        assert sorted((row["strict"], row["pass_k"]) for row in found) == [(0.0, []), (1.0, [])]
        assert found[0][name] != found[1][name]
    shown = invoke(report).output
    words = {"harness": "", "tools_mode": "tools all", "isolation": "landlock", "home": "home native"}[name]
    assert words in shown and len(shown.splitlines()) == 4
    record([(planned("a"), Episode())], agent="codex")
    mixed = invoke(report, "--compare", "oracle", "codex").exception
    assert isinstance(mixed, WrongUseError) and "different conditions" in str(mixed)


def test_pass_k_needs_the_same_conditions() -> None:
    episodes = []
    for tools in ("mcp-only", "all"):
        folder, _ = record([(planned("a"), Episode())], tools=tools)
        with RunReader(folder.path) as reader:
            episodes += list(reader.episodes())
    (row,) = summarise(episodes, ["agent"])
    assert (row["tasks"], row["tools_mode"], row["pass_k"]) == (1, "*", [])


def test_a_comparison_shows_how_the_conditions_differ(invoke: Invoke) -> None:
    record([(planned("a"), Episode())], tools="mcp-only")
    record([(planned("a"), Episode())], tools="all")
    result = invoke(report, "--compare", "agent=oracle,tools=mcp-only", "agent=oracle,tools=all")
    assert "The conditions differ: tools mcp-only against tools all" in result.output


def test_first_attempts_are_beside_retried_ones(invoke: Invoke) -> None:
    record([(planned("a"), Episode())])
    (row,) = rows(invoke)
    assert row["retried"] == {"episodes": 0, "partial": None, "strict": None}
    assert "1st try" not in invoke(report).output
    with RunFolder.create(run_info(planned("b"), planned("c"))) as folder:
        play(folder, planned("b"), Episode(partial=0.0))
        play(folder, planned("c"), BROKEN)
        play(folder, planned("c"), Episode(), attempt=2)
    (row,) = rows(invoke, "--run", folder.id)
    assert row["first_attempts"] == {"episodes": 1, "partial": 0.0, "strict": 0.0}
    assert row["retried"] == {"episodes": 1, "partial": 1.0, "strict": 1.0}
    shown = invoke(report, "--run", folder.id).output
    assert "1st try / retried" in shown and "0.000 / 1.000 (n=1, 1)" in shown


def test_public_tasks_are_shown_beside_verified(invoke: Invoke) -> None:
    stories = [(planned("a"), Episode()), (planned("b", split="private"), Episode())]
    record(stories, settings={"private_splits": ["private"]})
    found = {row["split"]: (row["public_tasks"], row["private_tasks"]) for row in rows(invoke)}
    assert found == {"train": (1, 0), "private": (0, 1)}
    above, header, *shown = invoke(report).output.splitlines()
    assert above == "agent oracle, benchmark agentdojo, isolation none, verified none"
    assert header.split()[:4] == ["split", "public", "tasks", "episodes"]
    assert [line.split()[:2] for line in shown] == [["private", "0/1"], ["train", "1/1"]]
    folder, _ = record([(planned("a"), Episode())], settings={"private_splits": ["private"]})
    assert "public tasks all" in invoke(report, "--run", folder.id).output


def test_old_runs_do_not_say_whether_tasks_are_public(invoke: Invoke) -> None:
    record([(planned("a"), Episode())])
    (row,) = rows(invoke)
    assert (row["public_tasks"], row["private_tasks"]) == (0, 0)
    assert "public" not in invoke(report).output


def test_a_copied_run_does_not_count_twice(invoke: Invoke, tmp_path: Path) -> None:
    folder, _ = record([(planned("a"), Episode())])
    shutil.copytree(folder.path, folder.path.with_name(f"{folder.id}_bak"))
    done = invoke(report, "--json")
    assert (done.exit_code, [row["episodes"] for row in json.loads(done.stdout)]) == (1, [1])
    assert f"is a copy of the run {folder.id}" in done.stderr
    refused = invoke(export, "--out", tmp_path / "rows.jsonl").exception
    assert isinstance(refused, StorageError) and "is a copy of the run" in str(refused)
