"""swe: the reference patch solves a task, doing nothing and meddling with the tests do not."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import anyio
import pytest

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.contracts import Grade
from mcp_bench.servers.grading_call import grade_world
from mcp_bench.servers.swe.benchmark import BENCHMARK
from mcp_bench.servers.swe.instance import SweError
from mcp_bench.servers.swe.packages import IDENTITY, packages
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
pytestmark = [
    pytest.mark.system,
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
    needs("git", shutil.which("git") is not None, "it is not on PATH"),
]
MODULE = "def double(number):\n    return number + number\n\n\ndef half(number):\n    return number * 2\n"
TESTS = "from halves import double, half\n\n\ndef test_double():\n    assert double(2) == 4\n"
HIDDEN = "\n\ndef test_half():\n    assert half(4) == 2\n"
PATCH = """\
diff --git a/src/halves.py b/src/halves.py
--- a/src/halves.py
+++ b/src/halves.py
@@ -3,4 +3,4 @@ def double(number):


 def half(number):
-    return number * 2
+    return number / 2
"""
TEST_PATCH = """\
diff --git a/tests/test_halves.py b/tests/test_halves.py
--- a/tests/test_halves.py
+++ b/tests/test_halves.py
@@ -3,3 +3,7 @@ from halves import double, half

 def test_double():
     assert double(2) == 4
+
+
+def test_half():
+    assert half(4) == 2
"""
FORGE = """
import sys, _pytest.reports
_pytest.reports.TestReport.outcome = property(lambda self: "passed", lambda self, value: None)
"""
XFAIL = """
def half(number):
    import pytest
    pytest.xfail("as expected")
"""
INTO_GLOBALS = """
import sys
frame = sys._getframe(1)
while not frame.f_code.co_filename.endswith("test_halves.py"):
    frame = frame.f_back
frame.f_globals.update({names})
"""
"""The module writes into the globals of the test file that imports it."""
REWRITE = """
for name in ("test_halves.py", "test_more.py"):
    with open("/testbed/tests/" + name, "w") as file:
        file.write("def test_double(): pass\\ndef test_half(): pass\\ndef test_more(): pass\\n")
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


@pytest.fixture(scope="module")
def layer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A layer with this environment's pytest."""
    made = tmp_path_factory.mktemp("layer")
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        for file in distribution(name).files or ():
            if file.suffix == ".py" and file.parts[0] != "..":
                place = made / "opt" / "swe" / "lib" / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), place)
    return made


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, layer: Path) -> Path:
    """A tasks' folder with one task."""
    clone = tmp_path / "repos" / "our__halves"
    (clone / "src").mkdir(parents=True)
    (clone / "tests").mkdir()
    (clone / "src" / "halves.py").write_text(MODULE)
    (clone / "tests" / "test_halves.py").write_text(TESTS)
    commit(clone)
    (tmp_path / "layer").symlink_to(layer)
    line = {
        "instance_id": "our__halves-1", "repo": "our/halves", "base_commit": "HEAD", "patch": PATCH,
        "test_patch": TEST_PATCH, "problem_statement": "half(4) is 8.", "hints_text": "", "version": "1",
        "FAIL_TO_PASS": '["tests/test_halves.py::test_half"]',
        "PASS_TO_PASS": '["tests/test_halves.py::test_double"]',
    }  # fmt: skip
    (tmp_path / "tasks.jsonl").write_text(json.dumps(line) + "\n")
    monkeypatch.setenv("MCP_BENCH_SWE", str(tmp_path))
    return tmp_path


def commit(clone: Path) -> None:
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-q", "-m", "one"]):
        environ = {"PATH": "/usr/bin:/bin", **IDENTITY}
        subprocess.run(["git", "-C", str(clone), *words], check=True, env=environ)


def played(*commands: str) -> tuple[Grade, str]:
    """Return the grade of an agent that runs these commands, and its patch."""

    async def play() -> tuple[Grade, str]:
        sandboxes = EpisodeSandboxes()
        host = type("Lent", (), {"sandbox": staticmethod(sandboxes.start)})()
        try:
            world = await BENCHMARK.make_world("our__halves-1", 0, host)
            for command in commands:
                await world.call("bash", {"command": command})
            return await grade_world(world, "", ()), world.patch
        finally:
            await sandboxes.aclose()

    return anyio.run(play)


def edit(text: str) -> str:
    return f"cat >>src/halves.py <<'X'\n{text}\nX"


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


def add_file(folder: Path, name: str, text: str, **changes: str) -> None:
    """Add a file to the hidden tests, and change the task."""
    path = folder / "tasks.jsonl"
    task = json.loads(path.read_text())
    lines = text.splitlines()
    task["test_patch"] += (
        f"diff --git a/tests/{name} b/tests/{name}\nnew file mode 100644\n--- /dev/null\n"
        f"+++ b/tests/{name}\n@@ -0,0 +1,{len(lines)} @@\n" + "".join(f"+{line}\n" for line in lines)
    )
    path.write_text(json.dumps(task | changes) + "\n")


def add_test(folder: Path, text: str) -> None:
    """Add a hidden test file. Its test fails as long as the task is not solved."""
    add_file(folder, "test_more.py", text, FAIL_TO_PASS='["tests/test_more.py::test_more"]')


IMPORTS = "import halves\n"
OWN_HOOK = (
    "import pytest\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n    assert outcome.get_result()\n"
)
NO_RUN = """
import re, _pytest.python
run = _pytest.python.Function.runtest
def skipped(self):
    if re.search("test_[0-9a-f]{8}", self.nodeid):
        run(self)
_pytest.python.Function.runtest = skipped
"""
"""It leaves out the two tests that show whether tests still fail and pass."""
PLUGIN = """
import gc, pytest, re, _pytest.config
class Evil:
    @pytest.hookimpl(tryfirst=True)
    def pytest_pyfunc_call(self, pyfuncitem):
        return None if re.search("test_[0-9a-f]{8}", pyfuncitem.nodeid) else True
[manager] = [one for one in gc.get_objects() if isinstance(one, _pytest.config.PytestPluginManager)]
manager.register(Evil())
"""
BORROWED = """
import gc, re, sys, tempfile, types, _pytest.config
def decide():
    frame = sys._getframe()
    while "caller_kwargs" not in frame.f_locals:
        frame = frame.f_back
    item = frame.f_locals["caller_kwargs"]["pyfuncitem"]
    return None if re.search("test_[0-9a-f]{8}", item.nodeid) else True
os = types.SimpleNamespace(fsdecode=lambda found: found)
hook = types.FunctionType(tempfile.gettempdir.__code__, {"_os": os, "_gettempdir": decide})
hook.pytest_impl = {"tryfirst": True}
[manager] = [one for one in gc.get_objects() if isinstance(one, _pytest.config.PytestPluginManager)]
manager.register(types.SimpleNamespace(pytest_pyfunc_call=hook))
"""
"""A hook with code of the standard library, but with other names in it."""


@pytest.mark.parametrize(
    ("conftest", "code"),
    [(IMPORTS, NO_RUN), (IMPORTS, PLUGIN), (IMPORTS, BORROWED), (OWN_HOOK, PLUGIN)],
    ids=["pytest replaced", "hooks added", "hooks with code of others", "hooks added later"],
)
def test_code_that_a_conftest_imports_decides_nothing(folder: Path, conftest: str, code: str) -> None:
    """It runs before the session starts. What the repository's own conftest.py does still counts."""
    add_file(folder, "conftest.py", conftest)
    grade, _ = played(edit(code))
    assert (grade.strict, grade.partial) == (False, 0)
    call = BENCHMARK.reference("our__halves-1")
    assert call is not None
    grade, _ = played(str(call.calls[0].arguments["command"]))
    assert grade.strict, grade


def test_code_under_test_rewrites_no_test_file(folder: Path) -> None:
    """A conftest.py imports it first, or another test file does."""
    add_test(folder, "from halves import half\n\ndef test_more():\n    assert half(4) == 2\n")
    grade, _ = played(edit(REWRITE))
    assert (grade.strict, grade.partial) == (False, 0)
    call = BENCHMARK.reference("our__halves-1")
    assert call is not None
    grade, _ = played(str(call.calls[0].arguments["command"]))
    assert grade.strict, grade


ALL = "def test_more():\n    assert all([half(4) == 2])\n"
PRINTED = "def test_more(capsys):\n    print(half(4))\n    assert capsys.readouterr().out == '2.0\\n'\n"
CAPSYS = "type('C', (), {'readouterr': lambda self: type('R', (), {'out': '2.0\\n'})})"
REPLACE = "import sys\ndef half(number):\n    sys._getframe(1).f_globals['test_more'] = lambda: None"


RENAME = """
def double(number):
    import gc
    tests = [one for one in gc.get_objects() if type(one).__module__ == "_pytest.python"]
    tests = {one.name: one for one in tests if type(one).__name__ == "Function"}
    passing, failing = tests["test_zero"], tests["test_half"]
    name = "_id" if hasattr(passing, "_id") else "_nodeid"
    one, other = getattr(passing, name), getattr(failing, name)
    setattr(passing, name, other), setattr(failing, name, one)
    return number + number
"""


@pytest.mark.parametrize(
    ("test", "code"),
    [
        (ALL, INTO_GLOBALS.format(names="all=lambda _: True")),
        (ALL, INTO_GLOBALS.format(names="__builtins__={**vars(__import__('builtins')), 'all': bool}")),
        (PRINTED, INTO_GLOBALS.format(names=f"capsys=__import__('pytest').fixture(lambda: {CAPSYS}())")),
        (ALL + "\n\nhalf(2)\n", REPLACE),
    ],
    ids=["a built-in function", "all built-in functions", "a fixture", "the test itself"],
)
def test_code_under_test_changes_no_name_of_a_test_file(folder: Path, test: str, code: str) -> None:
    add_test(folder, f"from halves import half\n\n\n{test}")
    grade, _ = played(edit(code.replace("test_halves", "test_more")))
    assert (grade.strict, grade.partial) == (False, 0)


def test_no_test_passes_under_the_name_of_another(folder: Path) -> None:
    zero = "+\n+\n+def test_zero():\n+    assert half(0) == 0\n"
    path = folder / "tasks.jsonl"
    task = json.loads(path.read_text())
    path.write_text(json.dumps(task | {"test_patch": TEST_PATCH.replace("+3,7", "+3,11") + zero}) + "\n")
    grade, _ = played(edit(RENAME))
    assert (grade.strict, grade.partial) == (False, 0)


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
    call = BENCHMARK.reference("our__halves-1")
    assert call is not None
    grade, _ = played(fake, str(call.calls[0].arguments["command"]))
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
    call = BENCHMARK.reference("our__halves-1")
    assert call is not None
    grade, _ = played(str(call.calls[0].arguments["command"]))
    assert grade.strict, grade


def test_a_solution_counts_beside_files_that_do_not(folder: Path) -> None:
    call = BENCHMARK.reference("our__halves-1")
    assert call is not None
    solve = str(call.calls[0].arguments["command"])
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
