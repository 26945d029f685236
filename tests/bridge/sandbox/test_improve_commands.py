"""Improvement tasks of one's own from the command line: checked, listed, recorded, and refused with a reason."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.bridge.sandbox.engine import engines
from tests.support import ROOT
from tests.support.bench_commands import Bench
from tests.support.improvement.kinds import write_kind
from tests.support.improvement.small_task import REFERENCE, TASK, write_task
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
SMALL = "def solve(n):\n    return (n - 1) * n * (2 * n - 1) // 6\n"
"""A baseline that is better than the reference."""
pytestmark = [pytest.mark.system, needs("bwrap", BWRAP.support().works, BWRAP.support().detail)]


def test_a_folder_is_recorded_through_a_worker(bench: Bench, tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    listed = json.loads(bench.run("tasks", "improve", "--path", folder, "--json").stdout)
    assert [task["id"] for task in listed] == ["sums.train.0", "sums.train.1", "sums.train.2"]
    bench.run("record", "--agent", "oracle", "--benchmark", "improve", "--path", folder, "--limit", "1")
    [row] = bench.grades()
    assert row["partial"] > 0.5, "a busy machine can blur the last part"
    [state] = bench.rows("select final_state from grades", database="grades.db")
    samples = json.loads(state["final_state"])["samples"]
    assert len(samples["candidate"]) == len(samples["baseline"]) == len(samples["reference"]) >= 5


def test_regrade_and_export_need_no_measurement(bench: Bench, tmp_path: Path) -> None:
    """The grade follows from the stored samples; and the episode is a TRL row with its score."""
    folder = write_task(tmp_path)
    bench.run("record", "--agent", "oracle", "--benchmark", "improve", "--path", folder, "--limit", "1")
    [again] = json.loads(bench.run("regrade", "--json").stdout)
    [first] = bench.grades()
    assert again["status"] == "same"
    assert again["grade_now"] == {"partial": first["partial"], "strict": bool(first["strict"])}
    assert first["partial"] > 0
    bench.run("export", "--format", "trl", "--out", tmp_path / "rows.jsonl")
    [row] = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert row["score"]["value"] < row["score"]["baseline"]
    with closing(sqlite3.connect(bench.run_folder / "grades.db")) as db, db:
        [text] = db.execute("select final_state from grades").fetchone()
        state = json.loads(text)
        state["samples"]["candidate"] = state["samples"]["baseline"]
        db.execute("update grades set final_state = ?", [json.dumps(state)])
    [changed] = json.loads(bench.run("regrade", "--json", code=1).stdout)
    assert (changed["status"], changed["grade_now"]["partial"]) == ("differs", 0.0)


def test_the_task_of_the_documentation_is_tried(bench: Bench, tmp_path: Path) -> None:
    """The files of docs/benchmarks/improve-own.md, each named by its first line, are a whole task."""
    page = (ROOT / "docs" / "benchmarks" / "improve-own.md").read_text()
    files = re.findall(
        r"^```\w+\n((?:#|<!--) (\S+/\S+|\S+\.\w+)(?: -->)?\n.*?)^```$", page, re.MULTILINE | re.DOTALL
    )
    folder = tmp_path / "my-task"
    for text, name in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    assert len(files) == 5
    done = bench.run("improve-task", "check", folder, "--repeat", "1", "--json", code=None)
    document = json.loads(done.stdout)
    [trial] = document["trials"]
    assert trial["gain"] > 1
    assert trial["reference"] < trial["baseline"]
    assert document["passed"] == (not trial["problems"])


def test_a_reference_that_is_no_better_is_found(bench: Bench, tmp_path: Path) -> None:
    folder = write_task(tmp_path, target=REFERENCE)
    done = bench.run("improve-task", "check", folder, "--repeat", "1", code=1)
    assert "problem: the reference is not better than the baseline" in done.stdout
    assert "sums: problems" in done.stdout


def test_a_broken_task_is_refused_before_an_agent_starts(bench: Bench, tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    (folder / "task.yaml").write_text("name: sums\nfamly: sums\n")
    for command in (
        ("improve-task", "check", folder),
        ("tasks", "improve", "--path", folder),
        ("record", "--agent", "oracle", "--benchmark", "improve", "--path", folder),
    ):
        done = bench.run(*command, code=2)
        assert "task.yaml:2: unknown key famly (did you mean family?)" in done.stderr
    done = bench.run("tasks", "improve", "--path", tmp_path / "nothing", code=2)
    assert "there is no such folder" in done.stderr


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"target": "def solve(n):\n    raise OSError('no')\n"}, "the baseline failed (OSError: no)"),
        (
            {"scorer": "def question(rng, part, settings):\n    return 1 / 0\n"},
            "scorer.py failed: ZeroDivision",
        ),
        # `check` above finds it, too, and what `record` says follows the same line
        pytest.param(
            {"target": SMALL}, "the reference is not better than the baseline", marks=pytest.mark.full
        ),
    ],
)
def test_a_task_that_cannot_be_measured_is_no_trial(
    bench: Bench, tmp_path: Path, parts: dict[str, str], said: str
) -> None:
    """`check` ends with 1 and names the part that failed; `record` does so before its agent starts."""
    folder = write_task(tmp_path, **parts)
    done = bench.run("improve-task", "check", folder, "--repeat", "1", code=1)
    assert said in done.stdout + done.stderr
    record = ("record", "--agent", "oracle", "--benchmark", "improve", "--path", folder, "--limit", "1")
    done = bench.run(*record, "--retries", "0", code=1)
    assert said in done.stderr
    assert "world_failed" in done.stderr
    assert not bench.rows("select id from calls")


def test_a_task_of_ones_own_is_tried_once(bench: Bench, tmp_path: Path) -> None:
    folder = write_task(tmp_path)
    record = ("record", "--agent", "noop", "--benchmark", "improve", "--path", folder, "--limit", "2")
    bench.run(*record)
    [mark] = (bench.home / "improve/tried").iterdir()
    made = mark.stat().st_mtime_ns
    bench.run(*record)
    assert [one.stat().st_mtime_ns for one in (bench.home / "improve/tried").iterdir()] == [made]


@pytest.mark.parametrize(
    ("parts", "said"),
    [
        ({"target": "#" * 70_000}, "target: its files have 70000 bytes; max_bytes is 60000"),
        ({"scorer": "def ask(): ...\n"}, "scorer.py: a scorer of the kind call needs question"),
        ({"scorer": "import none_such\n"}, "scorer.py: it cannot be loaded: ModuleNotFoundError"),
        ({"task": TASK.replace("size: 150000}", "size: 150000")}, "task.yaml:9: not YAML"),
    ],
)
def test_a_broken_part_is_found_before_anything_runs(
    bench: Bench, tmp_path: Path, parts: dict[str, str], said: str
) -> None:
    folder = write_task(tmp_path, **parts)
    record = ("record", "--agent", "oracle", "--benchmark", "improve", "--path", folder)
    for command in (("improve-task", "check", folder), record):
        assert said in bench.run(*command, code=2).stderr
    assert not [*bench.home.glob("runs/*")]


def test_a_task_without_its_package_is_left_out(bench: Bench, tmp_path: Path) -> None:
    """Where some tasks can run, they do; a task that was named alone is refused with the reason."""
    able, folder = write_task(tmp_path), write_kind(tmp_path, "text")
    file = folder / "task.yaml"
    file.write_text(file.read_text().replace("kind: text", "kind: text, packages: [none-such]"))
    done = bench.run("improve-task", "check", folder, code=1)
    assert "needs the package none-such, which is not installed: pip install none-such" in done.stderr
    record = ("record", "--agent", "oracle", "--benchmark", "improve", "--path")
    done = bench.run(*record, folder, code=2)
    assert "2 tasks that cannot run here: its Python has no package none-such" in done.stderr
    done = bench.run(*record, able.parent, "--limit", "2")
    assert "Left out: 1 task that cannot run here" in done.stderr
    assert len(bench.grades()) == 1
