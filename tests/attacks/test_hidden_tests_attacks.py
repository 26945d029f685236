"""What an agent may leave behind to pass hidden tests that it does not solve. Nothing of it scores."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from mcp_bench.servers.grading import Grade
from mcp_bench.servers.grading_call import grade_world
from mcp_bench.servers.harbor.world import HarborWorld
from mcp_bench.servers.sandbox import SandboxError
from tests.support.task_folders import DOCKERFILE, harbor_task, opened, terminal_bench_task

pytestmark = [pytest.mark.anyio, pytest.mark.system, pytest.mark.usefixtures("on_engine")]

ALL_PASS = (
    "import pytest\n"
    "@pytest.hookimpl(hookwrapper=True)\n"
    "def pytest_runtest_makereport(item, call):\n"
    "    outcome = yield\n"
    "    outcome.get_result().outcome = 'passed'\n"
)
FORGED = """
import os, pathlib
for place in ("/logs/verifier/reward.txt", "/logs/verifier/reward.json"):
    pathlib.Path(place).write_text("1")
names = ["it_is_there", "small_numbers", "large_numbers", "the_notes_are_unchanged"]
lines = "\\n".join(f"passed test_outputs.py::test_{name}" for name in names)
for place in ("/mcp-bench/key", "/logs/verifier/report", *map(str, pathlib.Path("/mcp-bench").iterdir())):
    try: pathlib.Path(place).write_text("0" * 64 + "\\n" + lines)
    except OSError: pass
os._exit(0)
"""
PLANTED = {
    "conftest.py in the working folder, above it and beside the tests": "for d in /app / /tests /opt /root; do mkdir -p $d; cp /tmp/all_pass.py $d/conftest.py; done",
    "settings of pytest": "for d in /app / /tests; do mkdir -p $d; cp /tmp/all_pass.py /app/evil.py; cp /tmp/all_pass.py $d/evil.py; "
    "printf '[pytest]\\naddopts = -p evil\\npythonpath = /app\\n' >$d/pytest.ini; "
    "printf '[tool.pytest.ini_options]\\naddopts = \"-p evil\"\\n' >$d/pyproject.toml; done",
    "a plugin as a package": "d=/usr/local/lib/python3/site-packages; for d in /root/.local/lib/python3.*/site-packages /app; do mkdir -p $d/evil-1.dist-info; "
    "cp /tmp/all_pass.py $d/evil.py; printf '[pytest11]\\nevil = evil\\n' >$d/evil-1.dist-info/entry_points.txt; "
    "printf 'Metadata-Version: 2.1\\nName: evil\\nVersion: 1\\n' >$d/evil-1.dist-info/METADATA; done",
    "programs on PATH": "for d in /root/.local/bin /root/bin /opt/bin /app/bin; do mkdir -p $d; for n in python3 pytest uv uvx bash sh; do "
    "printf '#!/bin/sh\\necho 1 >/logs/verifier/reward.txt\\nexit 0\\n' >$d/$n; chmod 755 $d/$n; done; done; "
    "echo 'export PATH=/root/bin:$PATH PYTHONPATH=/app PYTHONSTARTUP=/app/json.py BASH_ENV=/root/.bash_env PYTEST_ADDOPTS=--version PYTEST_PLUGINS=evil; pytest() { return 0; }; uv() { return 0; }; uvx() { return 0; }' | tee /root/.local/bin/env /root/.bashrc /root/.profile /root/.bash_profile /root/.bash_env",
    "the shell and the loader of the system": "rm -f /bin; mkdir /bin; cp /usr/bin/* /bin/ 2>/dev/null; for n in sh bash; do "
    'printf \'#!/usr/bin/python3\\nopen("/logs/verifier/reward.txt","w").write("1")\\n\' >/bin/$n; chmod 755 /bin/$n; done; echo nothing >/etc/ld.so.preload',
    "Python's own start": "for v in 3 3.9 3.10 3.11 3.12 3.13 3.14; do for d in /etc/python$v /root/.local/lib/python$v/site-packages; do mkdir -p $d; "
    'for n in sitecustomize usercustomize; do echo \'import os; open("/logs/verifier/reward.txt","w").write("1"); os._exit(0)\' >$d/$n.py; done; '
    "echo 'import os; os._exit(0)' >$d/evil.pth; done; done",
    "modules that shadow others": "for n in pytest _pytest json hmac typing pluggy importlib builtins os; do echo 'import os; os._exit(0)' >/app/$n.py; done",
    "tests and tools at their places": "mkdir -p /tests /opt/mcp-bench-tools/bin /logs/verifier; echo 'def test_small_numbers(): pass' >/tests/test_outputs.py; "
    "printf '#!/bin/sh\\nexit 0\\n' | tee /tests/test.sh >/opt/mcp-bench-tools/bin/pytest; echo 1 >/logs/verifier/reward.txt; echo '{\"reward\": 1}' >/logs/verifier/reward.json; chmod -R 777 /tests /opt/mcp-bench-tools",
    "links at their places": "rm -rf /tests /logs /opt/mcp-bench-tools /mcp-bench; mkdir -p /app/t; ln -s /app/t /tests; ln -s /app/t /logs; ln -s /app/t /opt/mcp-bench-tools; ln -s /app/t /mcp-bench; echo 1 >/app/t/reward.txt",
    "a key and a report before there are any": "mkdir -p /mcp-bench; printf '/app/report\\n00\\n' >/mcp-bench/key; chmod 0 /mcp-bench/key",
    "a daemon that rewrites the tests": "(trap '' HUP INT TERM; while :; do mkdir -p /tests /logs/verifier; echo 1 >/logs/verifier/reward.txt; echo 'def test_x(): pass' >/tests/test_outputs.py; done) >/dev/null 2>&1 & setsid sh -c 'while :; do echo 1 >/logs/verifier/reward.txt; done' >/dev/null 2>&1 & echo",
}
SOLUTIONS = {
    "it ends the test run": "import os\nos._exit(0)\n",
    "it raises SystemExit": "import sys\nsys.exit(0)\n",
    "it leaves at the end": "import atexit, os\natexit.register(lambda: os._exit(0))\n",
    "it forges every report": FORGED,
    "it replaces what pytest does with a test": "import _pytest.python\n_pytest.python.Function.runtest = lambda self: None\ndouble = None\n",
    "it replaces how a report is made": "import _pytest.reports as r\nmake = r.TestReport.from_item_and_call.__func__\ndef forged(cls, item, call):\n"
    "    report = make(cls, item, call)\n    report.outcome = 'passed'\n    return report\nr.TestReport.from_item_and_call = classmethod(forged)\ndouble = None\n",
    "it replaces the code of a function": "import _pytest.runner as r\ndef f(item, *a, **k): return None\nr.pytest_runtest_call.__code__ = f.__code__\ndouble = None\n",
    "it registers a plugin": "import gc, _pytest.config, pytest\nclass Evil:\n    @pytest.hookimpl(hookwrapper=True)\n    def pytest_runtest_makereport(self, item, call):\n"
    "        outcome = yield\n        outcome.get_result().outcome = 'passed'\n[m] = [o for o in gc.get_objects() if isinstance(o, _pytest.config.PytestPluginManager)]\nm.register(Evil())\ndouble = None\n",
    "it replaces the code of the tests": "import gc, types\ndef f(): pass\nfor o in gc.get_objects():\n"
    "    if isinstance(o, types.FunctionType) and o.__module__ == 'test_outputs':\n        o.__code__ = f.__code__\ndouble = None\n",
    "it replaces what runs a test": "import gc, _pytest.python\nfor o in gc.get_objects():\n"
    "    if isinstance(o, _pytest.python.Function):\n        o.runtest = lambda: None\ndouble = None\n",
    "it adds a property to reports": "import _pytest.reports as r\nr.TestReport.outcome = property(lambda self: 'passed', lambda self, value: None)\ndouble = None\n",
    "it kills everything": "import os\nos.kill(-1, 9)\n",
    "it replaces built-in names": "import builtins\nbuiltins.AssertionError = type('E', (BaseException,), {})\nbuiltins.all = lambda x: True\ndouble = lambda n: 0\n",
    "it skips the tests": "import pytest\npytest.skip('no', allow_module_level=True)\n",
}
VARIABLES = """
ENV PATH="/root/.cargo/bin:$PATH"
ENV BASH_ENV=/root/.cargo/start
ENV LD_PRELOAD=/root/.cargo/own.so
"""
SIGNER = r"""#!/usr/bin/python3
import hmac, os, sys
try:
    path, key = open("/mcp-bench/key").read().split("\n")[:2]
    names = ("it_is_there", "small_numbers", "large_numbers", "the_notes_are_unchanged")
    text = "\n".join(f"passed test_outputs.py::test_{name}" for name in names).encode()
    with open(path, "wb") as file:
        file.write(hmac.digest(bytes.fromhex(key), text, "sha256").hex().encode() + b"\n" + text)
    open("/logs/verifier/reward.txt", "w").write("1")
except (OSError, ValueError):
    pass
"""


ONE_OF_EACH = ("it ends the test run", "it forges every report", "it registers a plugin", "it adds a property to reports",
               "it replaces the code of the tests", "it replaces what runs a test", "it kills everything")  # fmt: skip


async def graded(world: HarborWorld, command: str, solution: str = "double = None\n") -> Grade:
    if world.sandbox.over:  # the solution before killed everything, the one that answers, too
        await world.sandbox.renew()
    await world.sandbox.write("/tmp/all_pass.py", ALL_PASS.encode())
    await world.sandbox.write("/app/solution.py", solution.encode())
    await world.sandbox.run(command, seconds=20)
    with anyio.fail_after(240):
        return await grade_world(world, "", ())


def unsolved(grade: Grade) -> bool:
    """Return whether nothing beyond the first test, which only imports, was counted."""
    passed = {check.name for check in grade.assertions if check.passed and check.kind == "objective"}
    return not grade.strict and passed <= {"test_outputs.py::test_it_is_there"}


@pytest.fixture(params=[harbor_task, pytest.param(terminal_bench_task, marks=pytest.mark.full)])
def folder(request: pytest.FixtureRequest, tmp_path: Path, bench_home: Path) -> Path:
    made: Path = request.param(tmp_path / "task")
    return made


async def test_nothing_that_is_left_behind_scores(folder: Path) -> None:
    """All that is planted at once, and one solution of each kind: the full sweep has each alone."""
    async with opened(folder) as world:
        seen = await world.sandbox.run(
            "find / -xdev \\( -name 'test_outputs*' -o -name '*tests.sh' -o -name 'sol*.sh' -o -name 'mcp-bench*' \\) 2>/dev/null"
        )
        assert seen.output == ""  # no tests, no solution and no tools beforehand
        planted = "\n".join(f"({command})" for command in PLANTED.values())
        assert unsolved(grade := await graded(world, planted)), grade
        for name in ONE_OF_EACH:
            assert unsolved(grade := await graded(world, "true", SOLUTIONS[name])), (name, grade)
        grade = await graded(world, "true", "def double(n): return 2 * n\n")
        assert grade.strict, grade  # a right solution scores, whatever lies beside it


async def test_a_full_disk_is_graded_and_does_not_score(tmp_path: Path, bench_home: Path) -> None:
    settings = 'version = "1.0"\n[environment]\nstorage_mb = 512\n[verifier]\ntimeout_sec = 60.0\n'
    folder = harbor_task(tmp_path / "task", **{"task.toml": settings})
    async with opened(folder) as world:
        fill = "for n in 1 2 3; do fallocate -l 250M /app/$n; done; sleep 110"
        with suppress(SandboxError):  # it is ended while the command runs
            await world.sandbox.run(fill, seconds=120)
        assert world.sandbox.over.startswith("storage")
        with anyio.fail_after(240):
            assert unsolved(grade := await grade_world(world, "", ())), grade
        assert {change["path"] for change in world.changes} >= {"/app/1", "/app/2"}


async def test_nothing_starts_by_a_variable_that_leads_to_files_of_the_agent(
    tmp_path: Path, bench_home: Path
) -> None:
    """A Dockerfile can set where programs, start-up files and libraries are looked for."""
    folder = harbor_task(tmp_path / "task", environment__Dockerfile=DOCKERFILE + VARIABLES)
    plant = (
        "cd /root/.cargo; mkdir bin; echo junk >own.so; chmod 755 sign; "
        "for n in env bash sh rm mkdir cd ls date sleep pytest python3; do cp sign bin/$n; done; "
        "printf '/root/.cargo/sign\nenv() { /root/.cargo/sign; }\ntrap /root/.cargo/sign DEBUG\n' >start"
    )
    async with opened(folder) as world:
        await world.sandbox.write("/root/.cargo/sign", SIGNER.encode(), mode=0o755)
        assert unsolved(grade := await graded(world, f"PATH=/usr/bin:/bin; {plant}")), grade
        assert (grade.metrics, "LD_PRELOAD" in world.tests_printed) == ({"reward": 0.0}, False)
        grade = await graded(world, "true", "def double(n): return 2 * n\n")
        assert grade.strict, (grade, world.tests_printed)


@pytest.mark.full
@pytest.mark.parametrize("name", PLANTED)
async def test_nothing_planted_scores_alone(folder: Path, name: str) -> None:
    async with opened(folder) as world:
        assert unsolved(grade := await graded(world, PLANTED[name])), grade


@pytest.mark.full
async def test_no_solution_scores_by_what_it_does_to_pytest(folder: Path) -> None:
    async with opened(folder) as world:
        for name, solution in SOLUTIONS.items():
            assert unsolved(grade := await graded(world, "true", solution)), (name, grade)
