"""swe: the reference patch solves a task, doing nothing and meddling with the tests do not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcp_bench.servers.swe.benchmark import BENCHMARK
from mcp_bench.servers.swe.instance import SweError
from mcp_bench.servers.swe.packages import packages
from tests.support.machines.swe_task import (
    INTO_GLOBALS,
    NEEDS,
    TEST_PATCH,
    add_test,
    commit,
    edit,
    played,
    solution,
)

pytestmark = [pytest.mark.system, *NEEDS]
FORGE = """
import sys, _pytest.reports
_pytest.reports.TestReport.outcome = property(lambda self: "passed", lambda self, value: None)
"""
XFAIL = """
def half(number):
    import pytest
    pytest.xfail("as expected")
"""
MEDDLE = r"""
cat >conftest.py <<'X'
import pytest
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport():
    (yield).get_result().outcome = "passed"
X
cp conftest.py tests/; printf '[pytest]\naddopts = --version\n' >pytest.ini
echo 'def test_double(): pass
def test_half(): pass' >tests/test_halves.py
for name in pytest sitecustomize json; do echo 'raise SystemExit(0)' | tee $name.py src/$name.py >/dev/null; done
mkdir -p /opt/run /opt/swe/lib; ln -s /dev/null /opt/run/report
for file in /opt/swe/lib/pytest/__init__.py /usr/local/bin/python3; do echo 'import os; os._exit(0)' >$file; done
(setsid sh -c 'while sleep 0.1; do cp conftest.py tests/; done' &)
"""

SHADOW = r"""
cat >shadow <<'X'
import os
lines = []
for place in ["/testbed/tests/" + name for name in os.listdir("/testbed/tests") if name.startswith("test_")]:
    names = [line[4:].split("(")[0] for line in open(place) if line.startswith("def ")]
    for name in names:
        bad = "halves" not in place and name == names[0]
        lines += ['["%s::%s", "setup", "passed", false]' % (place[9:], name)]
        lines += ['["%s::%s", "call", "%s", false]' % (place[9:], name, "failed" if bad else "passed")]
open("/opt/run/report", "w").write("\n".join(lines) + "\n")
os._exit(0)
X
mkdir -p src/evil-1.dist-info evil-1.dist-info sitecustomize; cp shadow sitecustomize/__init__.py
for name in json typing re unittest difflib _pytest/runner evil; do
  for d in . src; do mkdir -p $d/$(dirname $name); cp shadow $d/$name.py; done
done
printf '[pytest11]\nevil = evil\n' | tee src/evil-1.dist-info/entry_points.txt >evil-1.dist-info/entry_points.txt
printf 'Metadata-Version: 2.1\nName: evil\nVersion: 1\n' | tee src/evil-1.dist-info/METADATA >evil-1.dist-info/METADATA
"""
"""Files that no test imports. Each would write the report that is expected."""
ODD = "printf x >$(printf 'odd\\377name'); truncate -s 11M large; echo x >secret; chmod 0 secret"
"""Files that cannot be read out, or are too long."""


def test_the_oracle_solves_a_task_and_its_patch_is_kept(bench, folder: Path) -> None:
    bench.environ["MCP_BENCH_SWE"] = str(folder)
    bench.run("record", "--agent", "oracle", "--benchmark", "swe")
    [grade] = bench.rows("select strict, partial, final_state from grades", database="grades.db")
    assert (grade["strict"], grade["partial"]) == (1, 1)
    patch = json.loads(grade["final_state"])["patch"]
    assert patch.startswith("diff --git a/src/halves.py b/src/halves.py\n")
    assert "-    return number * 2\n+    return number / 2\n" in patch
    [episode] = bench.rows("select probes from episodes")
    lent = {
        name: found["passed"] for name, found in json.loads(episode["probes"]).items() if "sandbox" in name
    }
    assert lent == {"sandbox-1": True, "sandbox-2": True}


def test_doing_nothing_fails_the_hidden_test_alone(folder: Path) -> None:
    grade, patch = played()
    assert (grade.strict, grade.partial, patch) == (False, 0, "")
    assert [(one.name, one.passed) for one in grade.assertions] == [
        ("tests/test_halves.py::test_half", False), ("1 tests that passed still pass", True)
    ]  # fmt: skip


@pytest.mark.parametrize(
    "commands",
    [
        (MEDDLE,),
        (SHADOW,),
        (edit(FORGE),),
        (edit("import os\nos._exit(0)"),),
        (edit(XFAIL),),
        (edit("import os\nos.kill(-1, 9)"),),
        (edit(INTO_GLOBALS.format(names="pytestmark=__import__('pytest').mark.xfail")),),
        (edit(INTO_GLOBALS.format(names="pytestmark=__import__('pytest').mark.skip")),),
    ],
    ids=[
        "tests and tools",
        "shadowed modules",
        "forged report",
        "early exit",
        "an expected failure",
        "it kills everything",
        "a mark in the test file's globals",
        "a mark that skips",
    ],
)
def test_meddling_with_the_tests_scores_nothing(folder: Path, commands: tuple[str, ...]) -> None:
    grade, _ = played(*commands)
    assert (grade.strict, grade.partial) == (False, 0)


def test_tests_without_pytest_are_no_failure_of_the_agent(bench, folder: Path) -> None:
    (folder / "layer").unlink()
    bench.environ["MCP_BENCH_SWE"] = str(folder)
    bench.run("record", "--agent", "oracle", "--benchmark", "swe", code=1)
    [episode] = bench.rows("select invalid, invalid_detail from episodes")
    assert episode["invalid"] == "world_failed"
    assert "no pytest is in the tasks' layer" in episode["invalid_detail"]
    assert bench.grades() == []


def test_helpers_beside_the_tests_are_not_the_agents(folder: Path) -> None:
    """In a folder that is not named as usual."""
    clone, path = folder / "repos" / "our__halves", folder / "tasks.jsonl"
    (clone / "tests").rename(clone / "spec")
    (clone / "spec" / "expected.py").write_text("def expected(number):\n    return number / 2\n")
    commit(clone)
    text = path.read_text().replace("tests/", "spec/")
    path.write_text(text.replace("half(4) == 2", "half(4) == __import__('expected').expected(4)"))
    grade, patch = played("echo 'expected = lambda number: number * 2' >spec/expected.py")
    assert (grade.strict, grade.partial, "expected.py" in patch) == (False, 0, True)


def test_no_new_file_replaces_a_package_that_tests_import(folder: Path) -> None:
    """Tests that are a package put the repository's top before everything that is installed."""
    clone = folder / "repos" / "our__halves"
    (clone / "tests" / "__init__.py").touch()
    commit(clone)
    tool = folder / "layer" / "opt" / "swe" / "lib" / "checks.py"
    tool.write_text("def check(value):\n    assert value\n")
    add_test(
        folder,
        "from checks import check\nfrom halves import half\n\n\ndef test_more():\n    check(half(4) == 2)\n",
    )
    fake = "echo 'check = print' >checks.py"
    grade, _ = played(fake)
    assert (grade.strict, grade.partial) == (False, 0)
    grade, _ = played(fake, solution())
    assert grade.strict, grade


def test_a_failure_that_a_test_expects_counts_as_passed(folder: Path) -> None:
    """By a marker of its own: one test runs and fails, the other one is not run."""
    path = folder / "tasks.jsonl"
    task = json.loads(path.read_text())
    marked = "".join(
        f"+\n+\n+@__import__('pytest').mark.xfail(run={run})\n+def test_{run}():\n+    assert half(4) == 3\n"
        for run in (True, False)
    )
    task["test_patch"] = TEST_PATCH.replace("+3,7", "+3,17") + marked
    names = [f"tests/test_halves.py::test_{name}" for name in ("double", True, False)]
    task["PASS_TO_PASS"] = json.dumps(names)
    path.write_text(json.dumps(task) + "\n")
    grade, _ = played(solution())
    assert grade.strict, grade


def test_a_solution_counts_beside_files_that_do_not(folder: Path) -> None:
    solve = solution()
    grade, patch = played(
        solve, "rm -r tests; touch tests; echo more >notes; chmod +x notes; echo x >tests.py", ODD
    )
    assert grade.strict
    assert "new file mode 100755" in patch
    broken, _ = played(solve, edit("def double(number):\n    return 0"))
    assert (broken.strict, broken.partial) == (False, 0.5)


def test_a_wrong_line_is_named(folder: Path) -> None:
    path = folder / "tasks.jsonl"
    path.write_text(path.read_text().replace("test_halves.py::test_half", "test_half (tests.Halves)"))
    with pytest.raises(SweError, match=r"line 1: FAIL_TO_PASS: .*is no test id of pytest"):
        list(BENCHMARK.tasks())
    path.unlink()
    with pytest.raises(SweError, match="mcp-bench swe-tasks"):
        list(BENCHMARK.tasks())
    assert BENCHMARK.missing()


@pytest.mark.full  # downloads ten source distributions
@pytest.mark.parametrize("agent", ["oracle", "noop"])
def test_public_packages_are_solved_by_their_own_fix(bench, agent: str) -> None:
    assert bench.run("swe-tasks").stdout.split() == [package.task for package in packages()]
    bench.run("record", "--agent", agent, "--benchmark", "swe")
    grades = bench.grades()
    assert len(grades) == len(packages())
    for grade in grades:
        assert grade["strict"] == (agent == "oracle")
        failed = {check["name"] for check in json.loads(grade["assertions"]) if not check["passed"]}
        wanted = {name for package in packages() for name in package.fail_to_pass}
        assert failed <= wanted
        assert bool(failed) == (agent == "noop")
