"""Run test files with pytest and report each test's outcome. It runs in the sandbox, as its own script.

Arguments: the report's path, then test files. The report has a JSON line for each phase of each test.

Python starts with `-I`. The repository's folders are those of PYTHONPATH but its first, which has the test
tools. They are added when pytest and its plugins are loaded, and never replace a module of pytest or of the
standard library: no file runs that the tests do not import.
"""

import json
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, TextIO

TOOLS, *REPOSITORY = os.environ["PYTHONPATH"].split(os.pathsep)
REPOSITORY += [place for place in sys.path if place.startswith(os.getcwd())]  # of an image's .pth files
TRUSTED = [place for place in sys.path if place not in REPOSITORY]
sys.path[:] = [TOOLS, *TRUSTED]
KEPT = frozenset(getattr(sys, "stdlib_module_names", ())) | {"pytest", "_pytest", "pluggy", "iniconfig"}


class Trusted:
    """Finds pytest and the standard library, before any folder that pytest puts on the path."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> "ModuleSpec | None":
        return PathFinder.find_spec(name, [TOOLS, *TRUSTED]) if path is None and name in KEPT else None


places = [place for place, finder in enumerate(sys.meta_path) if finder is PathFinder]
sys.meta_path.insert(places[0], Trusted)

import pytest  # noqa: E402 - from the path above


class Repository:
    @pytest.hookimpl(tryfirst=True)
    def pytest_load_initial_conftests(self) -> None:
        """Add the repository's folders. Plugins were looked for before."""
        sys.path += REPOSITORY


class Report:
    def __init__(self, file: TextIO) -> None:
        self.file = file

    def pytest_runtest_logreport(self, report: "pytest.TestReport") -> None:
        """Write one phase: setup, call or teardown."""
        row = [report.nodeid, report.when, report.outcome, hasattr(report, "wasxfail")]
        self.file.write(json.dumps(row) + "\n")
        self.file.flush()


if __name__ == "__main__":
    target, *files = sys.argv[1:]
    options = ["-q", "--color=no", "-p", "no:cacheprovider", "--continue-on-collection-errors"]
    with open(target, "w", encoding="utf-8") as report:
        code = pytest.main([*options, "-o", "addopts=", *files], plugins=[Repository(), Report(report)])
    sys.exit(code)
