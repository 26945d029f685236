"""A task of swe that is made on the spot, and agents that run commands at it."""

from __future__ import annotations

import json
import shutil
import subprocess
from importlib.metadata import distribution
from pathlib import Path

import anyio

from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.bridge.sandbox.runners.episode_sandboxes import EpisodeSandboxes
from mcp_bench.servers.contracts import Grade
from mcp_bench.servers.grading_call import grade_world
from mcp_bench.servers.swe.benchmark import BENCHMARK
from mcp_bench.servers.swe.packages import IDENTITY
from tests.support.requirements import needs

BWRAP = engines()["bwrap"]
NEEDS = [
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
    needs("git", shutil.which("git") is not None, "it is not on PATH"),
]
MODULE = "def double(number):\n    return number + number\n\n\ndef half(number):\n    return number * 2\n"
TESTS = "from halves import double, half\n\n\ndef test_double():\n    assert double(2) == 4\n"
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
INTO_GLOBALS = """
import sys
frame = sys._getframe(1)
while not frame.f_code.co_filename.endswith("test_halves.py"):
    frame = frame.f_back
frame.f_globals.update({names})
"""
"""The module writes into the globals of the test file that imports it."""


def make_layer(made: Path) -> Path:
    """Make a layer with this environment's pytest."""
    for name in ("pytest", "pluggy", "iniconfig", "packaging", "pygments"):
        for file in distribution(name).files or ():
            if file.suffix == ".py" and file.parts[0] != "..":
                place = made / "opt" / "swe" / "lib" / file
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(str(file.locate()), place)
    return made


def make_task(folder: Path, layer: Path) -> None:
    """Make a tasks' folder with one task."""
    clone = folder / "repos" / "our__halves"
    (clone / "src").mkdir(parents=True)
    (clone / "tests").mkdir()
    (clone / "src" / "halves.py").write_text(MODULE)
    (clone / "tests" / "test_halves.py").write_text(TESTS)
    commit(clone)
    (folder / "layer").symlink_to(layer)
    line = {
        "instance_id": "our__halves-1", "repo": "our/halves", "base_commit": "HEAD", "patch": PATCH,
        "test_patch": TEST_PATCH, "problem_statement": "half(4) is 8.", "hints_text": "", "version": "1",
        "FAIL_TO_PASS": '["tests/test_halves.py::test_half"]',
        "PASS_TO_PASS": '["tests/test_halves.py::test_double"]',
    }  # fmt: skip
    (folder / "tasks.jsonl").write_text(json.dumps(line) + "\n")


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


def solution() -> str:
    """Return the command that solves the task."""
    reference = BENCHMARK.reference("our__halves-1")
    assert reference is not None
    return str(reference.calls[0].arguments["command"])


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
