"""What an agent made of a repository, and which part of it counts."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from pathlib import PurePosixPath

from mcp_bench.servers.sandbox import FileChange
from mcp_bench.servers.swe.repository import LINK, File, Tree

SETTINGS = frozenset(
    (
        "conftest.py",
        "pytest.ini",
        ".pytest.ini",
        "pytest.toml",
        ".pytest.toml",
        "tox.ini",
        "setup.cfg",
        "pyproject.toml",
        ".coveragerc",
    )
)
"""Files that change how tests run, wherever they are."""
STARTED = frozenset(("sitecustomize", "usercustomize"))
"""Modules that Python imports when it starts."""
TEST_FOLDERS = frozenset(("test", "tests"))
IMPORTED = (".py", ".pyc", ".so")
PLUGIN_FOLDERS = (".dist-info", ".egg-info")
"""Ends of folders that name plugins of pytest."""
SHOWN_BYTES = 1 << 20
NAMED = re.compile(r'^(?:---|\+\+\+) (?:"((?:[^"\\]|\\.)+)"|([^"\t\n][^\t\n]*))', re.MULTILINE)
"""A line of a patch that names a file: in quotes if it has odd characters, before a tab if it has a space."""
ESCAPED = re.compile(rb"\\([0-3][0-7]{2}|.)")
ESCAPES = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))


def edited(tree: Tree, changes: Iterable[FileChange], root: str) -> tuple[dict[str, int], list[str]]:
    """Return the files that an agent wrote, with git's mode, and those that it removed.

    Args:
        tree: the repository's files when the agent began. All of them were written in the sandbox.
        changes: everything in the sandbox that differs from its base.
        root: the repository's folder in the sandbox.
    """
    prefix = root.rstrip("/") + "/"
    there = {change.path.removeprefix(prefix): change for change in changes if change.path.startswith(prefix)}
    written = {}
    for path, change in there.items():
        if change.kind != "file" or path.startswith(".git/"):
            continue
        old = tree.get(path)
        mode = 0o100755 if change.mode & 0o100 else 0o100644
        if old is None or old.mode != mode or sha256(old.data).hexdigest() != change.sha256:
            written[path] = mode
    kept = {path for path, change in there.items() if change.kind in ("file", "link")}
    return dict(sorted(written.items())), sorted(set(tree) - kept)


def is_test(name: str) -> bool:
    return (name.startswith("test_") and name.endswith(".py")) or name.endswith("_test.py")


def changed_by(patch: str) -> frozenset[str]:
    """Return the files that a patch of git names."""

    def char(found: re.Match[bytes]) -> bytes:
        code = found[1]
        return bytes([int(code, 8) if len(code) == 3 else ESCAPES.get(code[0], code[0])])

    names = (
        os.fsdecode(ESCAPED.sub(char, os.fsencode(quoted))) if quoted else plain
        for quoted, plain in NAMED.findall(patch)
    )
    return frozenset(name.partition("/")[2] for name in names)


def is_protected(path: str, solution: Collection[str], named: Collection[str] = ()) -> bool:
    """Return whether an agent's version of a file is left out of its grade: it takes part in how tests run.

    A file that the reference solution changes never is.
    """
    if path in solution:
        return False
    place = PurePosixPath(path)
    name = place.name
    return (
        path in named
        or name in SETTINGS
        or name.endswith(".pth")
        or is_test(name)
        or any(part.partition(".")[0] in STARTED or part.endswith(PLUGIN_FOLDERS) for part in place.parts)
        or not TEST_FOLDERS.isdisjoint(place.parts[:-1])
    )


def folders_of_tests(tests: Tree, named: Collection[str], solution: Collection[str]) -> tuple[str, ...]:
    """Return folders, with a slash at the end, that belong to the tests: helpers and data, too.

    In each is a test that the task names. Its name says so, or half of its modules are tests. The
    repository's top is none, nor a folder in which the reference solution changes a file.
    """
    found = set()
    for folder in {path.rpartition("/")[0] for path in named} - {""}:
        there = [PurePosixPath(path).name for path in tests if path.rpartition("/")[0] == folder]
        modules = [name for name in there if name.endswith(".py") and name not in ("__init__.py", *SETTINGS)]
        mostly = 2 * sum(map(is_test, modules)) >= len(modules)
        touched = any(path.startswith(f"{folder}/") for path in solution)
        if (mostly or "test" in folder.rpartition("/")[2]) and not touched:
            found.add(f"{folder}/")
    return tuple(found)


def new_modules(before: Iterable[str], after: Iterable[str]) -> list[str]:
    """Return the names by which Python can import what was not there before."""
    before = set(before)
    places = {str(above) for path in before for above in PurePosixPath(path).parents}
    places |= {path.rpartition("/")[0] + "/" + _stem(path) for path in before if path.endswith(IMPORTED)}
    places = {place.lstrip("/") for place in places}
    names = set()
    for path in set(after) - before:
        *folders, last = path.split("/")
        parts = folders
        if _stem(path) == "__init__":  # it makes a package of a folder that may have been there
            names.update(folders[-1:])
        elif last.endswith(IMPORTED):
            parts = [*folders, _stem(path)]
        names.update(part for n, part in enumerate(parts, 1) if "/".join(parts[:n]) not in places)
    return sorted(name for name in names if name.isidentifier())


def _stem(path: str) -> str:
    return path.rpartition("/")[2].partition(".")[0]


def graded(
    tree: Tree, tests: Tree, mine: Tree, removed: Sequence[str], solution: str, named: Collection[str]
) -> dict[str, File]:
    """Return the files whose tests are run.

    Args:
        tree: the repository when the agent began.
        tests: the same with the hidden tests.
        mine: what the agent wrote.
        removed: what it removed.
        named: the files of the tests that the task names.
    """
    changed = changed_by(solution)
    own = folders_of_tests(tests, named, changed)

    def protected(path: str) -> bool:
        return path.startswith(own) or is_protected(path, changed, named)

    gone = {path for path in removed if not protected(path)}
    hidden = {path for path in tree.keys() | tests.keys() if tests.get(path) != tree.get(path)}
    found = {path: file for path, file in tree.items() if path not in gone | hidden}
    found |= {path: tests[path] for path in hidden if path in tests}
    fixed = set(found)
    folders = {str(above) for path in fixed for above in PurePosixPath(path).parents}
    for path, file in mine.items():
        if path in hidden or protected(path):
            continue
        # a file where a folder stays, or the other way round
        if path not in folders and fixed.isdisjoint(map(str, PurePosixPath(path).parents)):
            found[path] = file
    return found


def difference(tree: Tree, mine: Tree, removed: Sequence[str]) -> str:
    """Return what an agent changed as a patch, as SWE-bench's `model_patch`. Binary files are named alone."""
    parts = []
    for path in sorted({*mine, *removed}):
        old, new = tree.get(path), mine.get(path)
        try:
            before, after = (_lines(file) for file in (old, new))
        except UnicodeDecodeError:
            parts.append(f"Binary files a/{path} and b/{path} differ\n")
            continue
        names = ("/dev/null" if old is None else f"a/{path}", "/dev/null" if new is None else f"b/{path}")
        head = f"diff --git a/{path} b/{path}\n"
        if old is None and new is not None:
            head += f"new file mode {new.mode:o}\n"
        elif new is None and old is not None:
            head += f"deleted file mode {old.mode:o}\n"
        body = "".join(
            line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
            for line in difflib.unified_diff(before, after, *names)
        )
        parts.append(head + body)
    return "".join(parts)[:SHOWN_BYTES]


def _lines(file: File | None) -> list[str]:
    """Return a file's lines. They end with a newline alone: git knows no other end."""
    if file is None or file.mode == LINK:
        return []
    rows = file.data.decode().split("\n")
    return [f"{row}\n" for row in rows[:-1]] + ([rows[-1]] if rows[-1] else [])
