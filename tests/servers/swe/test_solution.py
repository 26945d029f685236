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
        (("spec/test_a.py", "spec/helper.py"), ["spec/test_a.py"], [], ("spec/",)),
        (("spec/test_a.py", "spec/one.py", "spec/two.py"), ["spec/test_a.py"], [], ()),
        (("a/testing/case.py", "a/testing/one.py"), ["a/testing/case.py"], [], ("a/testing/",)),
        (("pkg/test_a.py", "pkg/core.py"), ["pkg/test_a.py"], ["pkg/core.py"], ()),
        (("test_a.py", "test_b.py"), ["test_a.py"], [], ()),
    ],
    ids=["half of it are tests", "mostly code", "by its name", "the solution is in it", "the top"],
)
def test_folders_of_tests(
    paths: tuple[str, ...], named: list[str], solution: list[str], found: object
) -> None:
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


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("tests/a b.txt", "{}/tests/a b.txt\t"),
        ("tests/n\u00e9.txt", '"{}/tests/n\\303\\251.txt"'),
        ('tests/a\t"b".txt', '"{}/tests/a\\t\\"b\\".txt"'),
    ],
)
def test_a_file_that_the_solution_changes_is_the_agents_whatever_its_name(name: str, quoted: str) -> None:
    solution = f"--- {quoted.format('a')}\n+++ {quoted.format('b')}\n@@ -1 +1 @@\n-a\n+b\n"
    found = graded({name: TEXT}, {name: TEXT}, {name: File(0o100644, b"mine")}, [], solution, [])
    assert found[name].data == b"mine"
    assert graded({name: TEXT}, {name: TEXT}, {name: File(0o100644, b"mine")}, [], "", [])[name] == TEXT
