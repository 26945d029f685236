"""swe: code under test runs beside the hidden tests, and decides nothing about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.machines.swe_task import (
    INTO_GLOBALS,
    NEEDS,
    TEST_PATCH,
    add_file,
    add_test,
    edit,
    played,
    solution,
)

pytestmark = [pytest.mark.system, *NEEDS]
REWRITE = """
for name in ("test_halves.py", "test_more.py"):
    with open("/testbed/tests/" + name, "w") as file:
        file.write("def test_double(): pass\\ndef test_half(): pass\\ndef test_more(): pass\\n")
"""
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
    grade, _ = played(solution())
    assert grade.strict, grade


def test_code_under_test_rewrites_no_test_file(folder: Path) -> None:
    """A conftest.py imports it first, or another test file does."""
    add_test(folder, "from halves import half\n\ndef test_more():\n    assert half(4) == 2\n")
    grade, _ = played(edit(REWRITE))
    assert (grade.strict, grade.partial) == (False, 0)
    grade, _ = played(solution())
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
