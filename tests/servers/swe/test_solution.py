"""Which files of an agent take part in how tests run."""

from __future__ import annotations

import pytest

from mcp_bench.servers.swe.repository import File
from mcp_bench.servers.swe.solution import folders_of_tests, graded, new_modules

pytestmark = pytest.mark.unit
TEXT = File(0o100644, b"")


@pytest.mark.parametrize(
    ("paths", "named", "solution", "found"),
    [
        (("spec/test_a.py", "spec/helper.py"), ["spec/test_a.py"], "", ("spec/",)),
        (("spec/test_a.py", "spec/one.py", "spec/two.py"), ["spec/test_a.py"], "", ()),
        (("a/testing/case.py", "a/testing/one.py"), ["a/testing/case.py"], "", ("a/testing/",)),
        (("pkg/test_a.py", "pkg/core.py"), ["pkg/test_a.py"], "\n--- a/pkg/core.py\n", ()),
        (("test_a.py", "test_b.py"), ["test_a.py"], "", ()),
    ],
    ids=["half of it are tests", "mostly code", "by its name", "the solution is in it", "the top"],
)
def test_folders_of_tests(paths: tuple[str, ...], named: list[str], solution: str, found: object) -> None:
    assert folders_of_tests(dict.fromkeys(paths, TEXT), named, solution) == found


@pytest.mark.parametrize(
    ("added", "names"),
    [
        ("checks.py", ["checks"]),
        ("src/pkg/checks.py", ["checks"]),
        ("checks/deep/one.py", ["checks", "deep", "one"]),
        ("data/__init__.py", ["data"]),
        ("checks.cpython-311-x86_64-linux-gnu.so", ["checks"]),
        ("src/pkg/notes.txt", []),
        ("src/not-a-name.py", []),
    ],
)
def test_new_modules(added: str, names: list[str]) -> None:
    before = ["src/pkg/__init__.py", "src/pkg/core.py", "data/table.csv", "checks.md"]
    assert new_modules(before, [*before, added]) == names


def test_a_named_test_file_is_not_the_agents() -> None:
    """Also one that no convention names."""
    tree = {"checks/halves.py": TEXT, "checks/one.py": TEXT, "checks/two.py": TEXT}
    mine = {"checks/halves.py": File(0o100644, b"mine"), "checks/one.py": File(0o100644, b"mine")}
    found = graded(tree, tree, mine, ["checks/halves.py"], "", ["checks/halves.py"])
    assert (found["checks/halves.py"].data, found["checks/one.py"].data) == (b"", b"mine")
