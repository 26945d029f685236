"""Curation of real recordings: the funnel equals an independent count from the databases.

The oracle plays tasks of saasworld with some of its calls left out or spoiled, which gives different grades and
failed calls.
"""

import hashlib
import json
import os
import sqlite3
import subprocess
from collections import Counter, defaultdict
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.cli.export import export as export_command
from tests.support.processes.forked import run_module

pytestmark = pytest.mark.system

Row = dict[str, Any]


def bench(home: Path, *args: str | int | Path) -> subprocess.CompletedProcess[str]:
    shared = {name: os.environ[name] for name in ("PATH", "MCP_BENCH_CACHE")}
    ours = {"MCP_BENCH_HOME": str(home), "MCP_BENCH_ISOLATION": "none"}
    environ = {**shared, "HOME": str(home.parent), **ours}
    argv = [*map(str, args)]
    done = run_module("mcp_bench.bridge.cli.root", argv, env=environ, cwd=home.parent, timeout=300)
    assert done.returncode == 0, (args, done.stdout, done.stderr)
    return done


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """25 episodes of eight train tasks, two of them equal, and two episodes of the test split."""
    home = tmp_path_factory.mktemp("recorded") / "home"
    for options in ("drop=0", "drop=0.4", "spoil=0.7"):
        record = ("record", "--agent", "oracle", "--limit", 8, "--jobs", 4, "--agent-option", options)
        bench(home, *record, "--split", "train")
    bench(home, "record", "--agent", "oracle", "--limit", 1)
    bench(home, "record", "--agent", "oracle", "--split", "test", "--limit", 2, "--jobs", 2)
    return home


@pytest.fixture(scope="module")
def store(home: Path) -> list[Row]:
    """Every episode with its grade and its number of calls, read directly from the databases."""
    found = []
    for run in sorted((home / "runs").iterdir()):
        with closing(sqlite3.connect(f"file:{run / 'recordings.db'}?mode=ro", uri=True)) as db:
            db.row_factory = sqlite3.Row
            db.execute("ATTACH ? AS sealed", [f"file:{run / 'grades.db'}?mode=ro"])
            found += [
                dict(row)
                for row in db.execute(
                    "SELECT e.id, e.task, e.split, e.domain, g.partial, g.strict, count(c.id) AS calls,"
                    " coalesce(sum(c.outcome <> 'ok'), 0) AS failed,"
                    " (SELECT group_concat(c.tool || c.arguments || f.body, ' ') FROM calls c"
                    "  JOIN frames f ON f.id = c.response_frame WHERE c.episode = e.id) AS texts"
                    " FROM episodes e JOIN grades g ON g.episode = e.id LEFT JOIN calls c ON c.episode = e.id"
                    " GROUP BY e.id ORDER BY e.id"
                )
            ]
    return found


@pytest.fixture
def train(store: list[Row]) -> list[Row]:
    return [row for row in store if row["split"] == "train"]


def export(home: Path, *options: str | int | float) -> tuple[list[Row], dict[str, Any]]:
    out = home.parent / "rows.jsonl"
    arguments = [*map(str, options), "--out", str(out), "--force", "--json"]
    done = CliRunner().invoke(export_command, arguments, env={"MCP_BENCH_HOME": str(home)})
    assert done.exit_code == 0, done.exception
    manifest: dict[str, Any] = json.loads(done.stdout)
    assert manifest["sha256"] == hashlib.sha256(out.read_bytes()).hexdigest()
    funnel = manifest["funnel"]
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert funnel["rows_in"] - sum(funnel["dropped"].values()) == funnel["rows_out"] == len(rows)
    name = manifest["left_out"]
    left_out = json.loads(out.with_name(name).read_text(encoding="utf-8")) if name else {}
    named = [rules.get(rule, []) for rules in left_out.values() for rule in funnel["dropped"]]
    assert sum(map(len, named)) == sum(funnel["dropped"].values())
    # the printed funnel has a line for each count
    counts = [funnel["rows_in"], *(-count for count in funnel["dropped"].values()), funnel["rows_out"]]
    assert [int(line.split()[0]) for line in done.stderr.splitlines()] == counts
    return rows, funnel


def ids(rows: list[Row]) -> list[str]:
    return [row["id"] for row in rows]


def test_the_store_is_a_mixture(train: list[Row]) -> None:
    """The tests below need different grades and failed calls."""
    assert len(train) == 25
    assert len({row["partial"] for row in train}) >= 4
    assert any(row["failed"] for row in train)
    assert 5 < sum(row["strict"] for row in train) < 24


def test_thresholds(home: Path, store: list[Row], train: list[Row]) -> None:
    rows, funnel = export(home, "--min-partial", 0.6)
    assert ids(rows) == [row["id"] for row in train if row["partial"] >= 0.6]
    assert funnel["dropped"]["other_split"] == 2
    assert funnel["dropped"]["below_threshold"] == sum(row["partial"] < 0.6 for row in train)
    rows, funnel = export(home, "--strict", "--split", "all")
    assert ids(rows) == [row["id"] for row in store if row["strict"]]
    assert funnel["dropped"]["not_strict"] == sum(
        row["partial"] >= 0.5 and not row["strict"] for row in store
    )


def test_failing_calls_and_domains(home: Path, train: list[Row]) -> None:
    rows, funnel = export(home, "--min-partial", 0, "--max-error-share", 0.2)
    assert ids(rows) == [row["id"] for row in train if row["failed"] <= 0.2 * row["calls"]]
    assert funnel["dropped"]["too_many_errors"] > 0
    rows, _ = export(home, "--min-partial", 0, "--domain", "sales", "--domain", "hr")
    assert ids(rows) == [row["id"] for row in train if row["domain"] in {"sales", "hr"}]


def test_best_and_caps(home: Path, train: list[Row]) -> None:
    by_task: dict[str, list[float]] = defaultdict(list)
    for row in train:
        by_task[row["task"]].append(row["partial"])
    rows, funnel = export(home, "--min-partial", 0, "--best", 1)
    assert {row["task"]: row["partial"] for row in rows} == {
        task: max(all_) for task, all_ in by_task.items()
    }
    assert funnel["dropped"]["not_best"] == len(train) - len(by_task)
    rows, funnel = export(home, "--min-partial", 0, "--max-per-task", 2)
    assert Counter(row["task"] for row in rows) == dict.fromkeys(by_task, 2)
    assert funnel["dropped"]["over_task_cap"] == len(train) - 2 * len(by_task)
    rows, funnel = export(home, "--min-partial", 0, "--max-per-family", 1)
    families = {task.partition(".")[0] for task in by_task}
    assert Counter(row["task"].partition(".")[0] for row in rows) == dict.fromkeys(families, 1)
    assert funnel["dropped"]["over_family_cap"] == len(train) - len(families)


def test_duplicates(home: Path, train: list[Row]) -> None:
    """Two attempts are equal: nothing was left out or spoiled."""
    rows, funnel = export(home, "--min-partial", 0, "--dedupe", "exact")
    conversations = {json.dumps([without_ids(m) for m in row["messages"]]) for row in rows}
    assert len(conversations) == len(rows)
    everything, _ = export(home, "--min-partial", 0)
    distinct = {json.dumps([without_ids(m) for m in row["messages"]]) for row in everything}
    assert (distinct, funnel["dropped"]["exact_duplicate"]) == (conversations, len(train) - len(distinct))
    assert funnel["dropped"]["exact_duplicate"] > 0
    near, of_near = export(home, "--min-partial", 0, "--dedupe", "near", "--similarity", 0.7)
    assert set(ids(near)) <= set(ids(rows))
    assert of_near["dropped"]["near_duplicate"] > funnel["dropped"]["exact_duplicate"]
    assert {row["task"] for row in near} == {row["task"] for row in train}


def without_ids(message: Row) -> Row:
    plain = {key: value for key, value in message.items() if key != "tool_call_id"}
    return {**plain, "tool_calls": [call["function"] for call in message.get("tool_calls", [])]}


def test_cohorts(home: Path) -> None:
    sets = {
        which: export(home, "--cohort", which, "--size", 4, "--seed", 7)[0]
        for which in ("high", "low", "random")
    }
    high, low = sets["high"], sets["low"]
    tasks = [Counter(row["task"] for row in rows) for rows in sets.values()]
    assert tasks[0] == tasks[1] == tasks[2]
    assert sum(row["partial"] for row in high) > sum(row["partial"] for row in low)
    assert not set(ids(high)) & set(ids(low))


def test_email_addresses_are_replaced(home: Path) -> None:
    plain, _ = export(home, "--strict")
    rows, _ = export(home, "--strict", "--redact", "emails")
    assert "@" in json.dumps([row["messages"] for row in plain])
    assert "EMAIL_1" in json.dumps([row["messages"] for row in rows])
    left = json.dumps([row["messages"] for row in rows])
    assert ".example" not in "".join(part[:40] for part in left.split("@")[1:])
    assert ids(rows) == ids(plain)


def test_the_same_command_writes_the_same_bytes(home: Path) -> None:
    options = ("--min-partial", 0, "--dedupe", "near", "--max-per-family", 2, "--redact", "emails")
    out, manifest = home.parent / "rows.jsonl", home.parent / "rows.jsonl.manifest.json"
    export(home, *options)
    before = out.read_bytes(), manifest.read_bytes()
    bench(home, "export", *map(str, options), "--out", out, "--force")  # in another process
    assert (out.read_bytes(), manifest.read_bytes()) == before


def test_two_variants_are_compared(home: Path, train: list[Row]) -> None:
    found = json.loads(bench(home, "report", "--compare", "drop=0.4", "spoil=0.7", "--json").stdout)
    (row,) = found["rows"]
    assert row["common_tasks"] == 8
    before, after = ({r["task"]: r for r in train[at : at + 8]} for at in (8, 16))
    tasks = before.keys()
    assert row["partial"]["difference"] == pytest.approx(
        sum(after[t]["partial"] - before[t]["partial"] for t in tasks) / 8
    )
    flipped = {f"saasworld/{t}" for t in tasks if after[t]["strict"] > before[t]["strict"]}
    assert {flip["task"] for flip in row["flips"]["fail_to_pass"]} == flipped
