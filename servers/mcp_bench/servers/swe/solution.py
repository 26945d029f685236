"""What an agent made of a repository, and which part of it counts."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from hashlib import sha256
from pathlib import PurePosixPath

from mcp_bench.servers.sandbox import FileChange
from mcp_bench.servers.swe.repository import LINK, File, Tree

SETTINGS = frozenset(
    ("conftest.py", "pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg",
     "pyproject.toml", ".coveragerc")
)  # fmt: skip
"""Files that change how tests run, wherever they are."""
STARTED = frozenset(("sitecustomize", "usercustomize"))
"""Modules that Python imports when it starts."""
TEST_FOLDERS = frozenset(("test", "tests"))
PLUGIN_FOLDERS = (".dist-info", ".egg-info")
"""Ends of folders that name plugins of pytest."""
SHOWN_BYTES = 1 << 20


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


def is_protected(path: str, solution: str) -> bool:
    """Return whether an agent's version of a file is left out of its grade: it takes part in how tests run.

    A file that the reference solution changes never is.
    """
    if f"+++ b/{path}\n" in solution or f"--- a/{path}\n" in solution:
        return False
    place = PurePosixPath(path)
    name = place.name
    return (
        name in SETTINGS
        or name.endswith(".pth")
        or (name.startswith("test_") and name.endswith(".py"))
        or name.endswith("_test.py")
        or any(part.partition(".")[0] in STARTED or part.endswith(PLUGIN_FOLDERS) for part in place.parts)
        or not TEST_FOLDERS.isdisjoint(place.parts[:-1])
    )


def graded(tree: Tree, tests: Tree, mine: Tree, removed: Sequence[str], solution: str) -> dict[str, File]:
    """Return the files whose tests are run.

    Args:
        tree: the repository when the agent began.
        tests: the same with the hidden tests.
        mine: what the agent wrote.
        removed: what it removed.
    """
    gone = {path for path in removed if not is_protected(path, solution)}
    hidden = {path for path in tree.keys() | tests.keys() if tests.get(path) != tree.get(path)}
    found = {path: file for path, file in tree.items() if path not in gone | hidden}
    found |= {path: tests[path] for path in hidden if path in tests}
    fixed = set(found)
    folders = {str(above) for path in fixed for above in PurePosixPath(path).parents}
    for path, file in mine.items():
        if path in hidden or is_protected(path, solution):
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
