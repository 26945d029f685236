import contextlib
import fcntl
import json
import os
import pty
import random
import re
import sqlite3
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest
from click.testing import Result
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded import Episode, begin, planned, record, run_info

from mcp_bench.recorder.cli.report import report
from mcp_bench.recorder.run_folder import RunFolder
from mcp_bench.recorder.statistics import TaskSum, bootstrap
from mcp_bench.servers.errors import UnknownNameError

Invoke = Callable[..., Result]
CALLS = (("transfer", {"amount": 1}, "ok"), ("transfer", {"amount": 2}, "ok"))


BROKEN = Episode(partial=None, invalid="endpoint_error", calls=())


def on_terminal(columns: int, *args: str) -> str:
    """Run a command on a terminal so wide, and return what it shows, without colours."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    environ = {**os.environ, "TERM": "xterm"}
    for name in ("COLUMNS", "LINES", "NO_COLOR"):
        environ.pop(name, None)
    argv = [sys.executable, "-m", "mcp_bench.bridge.cli.root", *args]
    with subprocess.Popen(
        argv, stdin=follower, stdout=follower, stderr=subprocess.DEVNULL, env=environ
    ) as run:
        os.close(follower)
        shown = bytearray()
        with contextlib.suppress(OSError):  # the kernel's way to say that nobody writes any more
            while data := os.read(leader, 65536):
                shown += data
    os.close(leader)
    assert run.returncode == 0
    return re.sub(r"\x1b\[[0-9;]*m", "", shown.decode())


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
    assert rows(invoke) == [row]  # the same again


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
def test_a_narrow_terminal_loses_nothing(columns: int) -> None:
    stories = [(planned("a"), Episode()), (planned("b"), Episode(partial=0.5)), (planned("c"), BROKEN)]
    record(stories, agent="claude-code", model="a-model")
    shown = on_terminal(columns, "report")
    for text in ("claude-code  a-model  agentdojo  train", "0.750 [0.500, 1.000]", "0.500 with invalid as 0",
                 "3 episodes, 1 invalid", "isolation none"):  # fmt: skip
        assert text in shown, shown


def test_a_wide_terminal_has_a_table() -> None:
    record([(planned("a"), Episode()), (planned("b"), Episode(partial=0.5))], agent="claude-code")
    header, row = on_terminal(200, "report").splitlines()
    assert header.split() == [
        "agent", "model", "benchmark", "split", "episodes", "invalid", "partial", "strict", "inv.", "as", "0",
        "calls", "isolation",
    ]  # fmt: skip
    assert "claude-code" in row and "0.750 [0.500, 1.000]" in row


def test_runs_that_are_not_done_are_named(invoke: Invoke) -> None:
    with RunFolder.create(run_info(planned("a"), planned("b"))) as folder:
        begin(folder, planned("a"))
        result = invoke(report, "--json")
    assert json.loads(result.stdout) == []
    assert f"{folder.id}: 2 of 2 planned episodes are not done yet" in result.stderr
    assert f"--resume {folder.id}" in result.stderr


def test_without_recordings_it_says_how_to_make_some(invoke: Invoke) -> None:
    result = invoke(report)
    assert (result.exit_code, result.stderr) == (0, "")
    assert "mcp-bench record" in result.output
    assert rows(invoke) == []


task_sums = st.builds(
    lambda scores: TaskSum(len(scores), sum(scores), sum(score == 1 for score in scores)),
    st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=1, max_size=4),
)


@settings(max_examples=20, deadline=None)
@given(st.dictionaries(st.text(max_size=3), task_sums, min_size=2, max_size=30))
def test_an_interval_holds_its_mean_and_repeats(tasks: dict[str, TaskSum]) -> None:
    intervals = bootstrap(tasks, seed="s")
    assert intervals is not None
    (low, high), (strict_low, strict_high) = intervals
    assert 0 <= low <= high <= 1
    assert 0 <= strict_low <= strict_high <= 1
    backwards = dict(reversed(tasks.items()))
    assert bootstrap(backwards, seed="s") == intervals


def test_the_interval_is_about_tasks_not_episodes() -> None:
    """Ten attempts at each of four tasks that agree within a task: as wide as one attempt each."""
    once = {str(n): TaskSum(1, float(n % 2), n % 2) for n in range(4)}
    often = {name: TaskSum(10, 10 * task.partial, 10 * task.strict) for name, task in once.items()}
    assert bootstrap(often, seed="s") == bootstrap(once, seed="s")


def test_intervals_cover_the_true_mean_about_as_often_as_they_say() -> None:

    generator, covered = random.Random(1), 0
    for trial in range(100):
        tasks = {}
        for number in range(40):
            rate = generator.choice([0.1, 0.5, 0.9])  # tasks differ: that is why they are the unit
            solved = sum(generator.random() < rate for _ in range(3))
            tasks[str(number)] = TaskSum(3, float(solved), solved)
        intervals = bootstrap(tasks, seed=str(trial))
        assert intervals is not None
        (low, high), _ = intervals
        covered += low <= 0.5 <= high
    assert 87 <= covered <= 100


def test_twenty_eight_thousand_episodes_are_all_counted(invoke: Invoke) -> None:
    """Rows as the recorder writes them, put in by SQL."""
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
            f"INSERT INTO grades {numbers} SELECT 'n' || n, 0.5, 0, '[]', '{{}}', 'g1', 'null', 1 FROM i"
        )
    (row,) = rows(invoke)
    assert row["episodes"] == count + 1


def test_a_damaged_run_is_named_and_hides_no_other(invoke: Invoke) -> None:
    folder, _ = record([(planned(), Episode())])
    (folder.path.parent / "run_damaged").mkdir()
    (folder.path.parent / "run_damaged" / "recordings.db").write_bytes(b"not a database, " * 99)
    result = invoke(report, "--json")
    assert [row["episodes"] for row in json.loads(result.stdout)] == [1]
    assert result.exit_code == 1
    assert "run_damaged" in result.stderr


def test_a_run_without_a_grader_is_done_when_its_episodes_ended(invoke: Invoke) -> None:
    record([(planned(), Episode(partial=None))], graded=False)
    result = invoke(report, "--json")
    (row,) = json.loads(result.stdout)
    assert (row["episodes"], row["ungraded"], row["partial"]) == (1, 1, None)
    assert result.stderr == ""
