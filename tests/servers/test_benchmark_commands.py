"""The commands `benchmarks` and `tasks`."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.processes.forked import run_module

pytestmark = pytest.mark.component


def run(
    home: Path, *args: str, code: int = 0, columns: int | None = 100, **more: str
) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "HOME": str(home), **more}
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
    chosen = ["tasks", "saasworld", "--split", "dev", "--tag", "level-1"]
    ids = run(tmp_path, *chosen, "--limit", "3", "--ids").stdout.splitlines()
    assert [name.split(".")[1:3] for name in ids] == [["1", "dev"]] * 3
    family = ids[0].partition(".")[0]
    both = run(tmp_path, *chosen, "--tag", family, "--ids").stdout.splitlines()
    assert both[0] == ids[0] and {name.partition(".")[0] for name in both} == {family}


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (
            ["saasworld", "--split", "dev", "--tag", "level-11"],
            "unknown tag 'level-11' (did you mean level-1",
        ),
        (["saasworld", "--ids", "--json"], "leave out one of them"),
        (["agentdoj"], "unknown benchmark 'agentdoj' (did you mean agentdojo?)"),
        (["agentdojo", "--split", "tset"], "unknown split 'tset' (did you mean test?)"),
        (["zzz"], "unknown benchmark 'zzz' (see `mcp-bench benchmarks`)"),
        (["agentdojo", "--limit", "0"], "'--limit'"),
    ],
)
def test_unknown_names_suggest_similar_ones(tmp_path: Path, args: list[str], words: str) -> None:
    done = run(tmp_path, "tasks", *args, code=2)
    assert words in done.stderr and not done.stdout
    assert "Traceback" not in done.stderr


DEMANDING = """
from itertools import count

from mcp_bench.servers.sdk import RemoteBenchmark, SimpleBenchmark, Task

class Demanding(SimpleBenchmark):
    name, version, summary, replay = "demanding", "3", "Needs much", "none"

    def tasks(self, split=None, limit=None):
        needs = [("program:sh",), ("program:no-such-program", "memory:1"), *[("program:no-such-program",)] * 6]
        for number, needed in enumerate(needs):
            if split == "dev":
                raise KeyError("row 7")
            yield Task(
                id=f"t{number}", benchmark=self.name, prompt="Go.", split="train", domain="d", needs=needed
            )

    ids = make_task = make_world = None

class Endless(SimpleBenchmark):
    name, splits = "endless", ("train",)

    def ids(self, split):
        return map(str, count())

    def make_task(self, task_id):
        return Task(id=task_id, benchmark=self.name, prompt="Go.", split="train", domain="d")

    make_world = None

BENCHMARK = Demanding()
ENDLESS = Endless()
ABSENT = RemoteBenchmark(
    "absent", "absent:X", version="1", packages=["no_such_package"], install="pip install no-such-package"
)
"""


@pytest.fixture
def demanding(tmp_path: Path) -> str:
    """A folder with an installed package of three benchmarks, for PYTHONPATH."""
    about = tmp_path / "demanding-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: demanding\nVersion: 1.0\n")
    points = "demanding = demanding:BENCHMARK\nabsent = demanding:ABSENT\nendless = demanding:ENDLESS\n"
    (about / "entry_points.txt").write_text(f"[mcp_bench.benchmarks]\n{points}")
    (tmp_path / "demanding.py").write_text(DEMANDING)
    return str(tmp_path)


def test_tasks_that_cannot_run_here_are_named_with_the_reason(tmp_path: Path, demanding: str) -> None:
    shown = run(tmp_path, "tasks", "demanding", PYTHONPATH=demanding).stdout
    reason = "there is no program 'no-such-program' on PATH"
    assert shown.splitlines()[-1] == (
        f"7 of 8 tasks cannot run here, because {reason}: t1, t2, t3, t4, t5 and 2 more"
    )
    listed = json.loads(run(tmp_path, "tasks", "demanding", "--json", PYTHONPATH=demanding).stdout)
    assert [task["cannot_run"] for task in listed] == [[], *[[reason]] * 7]
    assert listed[1]["needs"] == ["program:no-such-program", "memory:1"]
    ids = run(tmp_path, "tasks", "demanding", "--ids", PYTHONPATH=demanding).stdout
    assert ids.split() == [f"t{number}" for number in range(8)]


def test_a_list_that_fails_is_an_error(tmp_path: Path, demanding: str) -> None:
    failed = run(tmp_path, "tasks", "demanding", "--split", "dev", code=1, PYTHONPATH=demanding)
    assert failed.stderr == "Error: benchmark 'demanding' cannot list its tasks: KeyError: 'row 7'\n"


@pytest.mark.parametrize("command", [["tasks"], ["record", "--dry-run", "--agent", "noop", "--benchmark"]])
def test_a_split_without_an_end_needs_a_limit(tmp_path: Path, demanding: str, command: list[str]) -> None:
    failed = run(tmp_path, *command, "endless", code=2, PYTHONPATH=demanding)
    assert failed.stderr.endswith(
        "benchmark 'endless' has more than 3,000 tasks in split 'default', perhaps without an end: "
        "use --limit N\n"
    )
    run(tmp_path, *command, "endless", "--limit", "3001", PYTHONPATH=demanding)


def test_benchmark_that_is_not_installed_shows_how(tmp_path: Path, demanding: str) -> None:
    shown = run(tmp_path, "benchmarks", PYTHONPATH=demanding).stdout
    assert "absent cannot run here: " in shown and "has no package 'no_such_package'" in shown
    assert ". Install it with: pip install no-such-package\n" in shown
    rows = {
        row["name"]: row
        for row in json.loads(run(tmp_path, "benchmarks", "--json", PYTHONPATH=demanding).stdout)
    }
    assert rows["absent"]["install"] == "pip install no-such-package"
    assert "no_such_package" in rows["absent"]["missing"]
    assert "missing" not in rows["agentdojo"] and "install" not in rows["demanding"]
    named = {"PYTHONPATH": demanding, "MCP_BENCH_PYTHON_ABSENT": "/no/python"}
    assert "cannot start the Python '/no/python'" in run(tmp_path, "benchmarks", **named).stdout


def test_help_has_examples(tmp_path: Path) -> None:
    for command in ("benchmarks", "tasks"):
        assert "Examples:" in run(tmp_path, command, "--help").stdout


def test_what_a_benchmark_lacks_is_named_before_a_run(tmp_path: Path) -> None:
    """In the words of `benchmarks`, and nothing is recorded."""
    nowhere = {"PATH": str(tmp_path), "MCP_BENCH_HOME": str(tmp_path / "home")}
    ours = {"MCP_BENCH_HOME": str(tmp_path / "home"), "MCP_BENCH_PYTHON_BFCL": sys.executable}
    java = "benchmark 'scienceworld': there is no program 'java' on PATH; install it with: "
    for words, given in (
        (f"{java}mcp-bench benchmarks install scienceworld (and Java: apt-get install", nowhere),
        ("'bfcl_eval' is not installed", ours),
    ):
        name = "scienceworld" if given is nowhere else "bfcl"
        for command in (["record", "--agent", "noop", "--benchmark", name], ["tasks", name]):
            done = run(tmp_path, *command, code=1, **given)
            assert words in done.stderr and f"benchmarks install {name}" in done.stderr, done.stderr
            assert "Traceback" not in done.stderr
    assert not list((tmp_path / "home").glob("runs/*"))


def test_all_splits_need_no_secret(tmp_path: Path) -> None:
    ids = run(tmp_path, "tasks", "mle", "--split", "all", "--ids").stdout.split()
    assert len(ids) == 45 and not [name for name in ids if "private" in name]
    assert (
        "known: all, dev, private, test, train"
        in run(tmp_path, "tasks", "codeworld", "--split", "x", code=2).stderr
    )
