"""The commands `benchmarks` and `tasks`."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support.forked import run_module

pytestmark = pytest.mark.component


def run(home: Path, *args: str, code: int = 0, columns: int | None = 100) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home)}
    if columns is not None:
        environ["COLUMNS"] = str(columns)
    done = run_module("mcp_bench.bridge.cli.root", args, env=environ, cwd=Path.cwd(), timeout=120)
    assert done.returncode == code, done
    return done


def test_benchmarks_are_listed(tmp_path: Path) -> None:
    listed = [line.split()[:2] for line in run(tmp_path, "benchmarks").stdout.splitlines()]
    assert ["agentdojo", "v1.2.2"] in listed
    rows = {row["name"]: row for row in json.loads(run(tmp_path, "benchmarks", "--json").stdout)}
    assert rows["agentdojo"]["version"] == "v1.2.2"
    assert rows["agentdojo"]["replay"] == "normalised"


def test_tasks_are_listed_within_the_terminal(tmp_path: Path) -> None:
    lines = run(tmp_path, "tasks", "agentdojo", "--split", "test", "--limit", "3").stdout.splitlines()
    assert len(lines) == 4
    assert lines[1].split()[:3] == ["travel/user_task_0", "test", "travel"]
    assert max(map(len, lines)) == 100 and lines[1].endswith("…")


def test_nothing_is_cut_without_a_terminal(tmp_path: Path) -> None:
    (_, line) = run(tmp_path, "tasks", "agentdojo", "--limit", "1", columns=None).stdout.splitlines()
    assert line.endswith("Do not assume which year it is; look it up with the tools.")
    assert "…" not in run(tmp_path, "benchmarks", columns=None).stdout


def test_json_listing_has_whole_tasks(tmp_path: Path) -> None:
    found = json.loads(run(tmp_path, "tasks", "agentdojo", "--split", "all", "--json").stdout)
    assert len(found) == 92
    assert found[0]["id"] == "workspace/user_task_0"
    assert found[0]["prompt"].startswith("Who else is invited")
    assert "Emma Johnson" in found[0]["prompt"]


def test_tasks_are_selected_by_tag_and_printed_as_ids(tmp_path: Path) -> None:
    chosen = ["tasks", "saasworld", "--split", "train", "--tag", "level-1"]
    ids = run(tmp_path, *chosen, "--limit", "3", "--ids").stdout.splitlines()
    assert [name.split(".")[1:3] for name in ids] == [["1", "train"]] * 3
    family = ids[0].partition(".")[0]
    both = run(tmp_path, *chosen, "--tag", family, "--ids").stdout.splitlines()
    assert both[0] == ids[0] and {name.partition(".")[0] for name in both} == {family}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["saasworld", "--tag", "level-11"], "unknown tag 'level-11' (did you mean level-1"),
        (["saasworld", "--ids", "--json"], "leave out one of them"),
        (["agentdoj"], "unknown benchmark 'agentdoj' (did you mean agentdojo?)"),
        (["agentdojo", "--split", "tset"], "unknown split 'tset' (did you mean test?)"),
        (["agentdojo", "--limit", "0"], "'--limit'"),
    ],
)
def test_unknown_names_suggest_similar_ones(tmp_path: Path, args: list[str], words: str) -> None:
    done = run(tmp_path, "tasks", *args, code=2)
    assert words in done.stderr and not done.stdout
    assert "Traceback" not in done.stderr


def test_help_has_examples(tmp_path: Path) -> None:
    for command in ("benchmarks", "tasks"):
        assert "Examples:" in run(tmp_path, command, "--help").stdout
