"""Find where installed packages come from: checkouts and unpacked sources, which an agent must not read.

A package can be imported from a checkout (an editable installation, PYTHONPATH) or have been built from one.
The folder that is imported is only a part of it: beside it are `.git`, tests and other packages.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from urllib.parse import unquote, urlsplit

HISTORIES = (".git", ".hg", ".jj", ".sl", ".svn", ".bzr", ".pijul", "_darcs", "CVS")
"""Where version control systems keep all versions of all files."""
PROJECTS = ("pyproject.toml", "setup.py", "setup.cfg")
POINTER_BYTES = 1 << 16


@cache
def sources(imported: frozenset[str], needed: tuple[str, ...]) -> frozenset[str]:
    """Return the real paths of all checkouts, projects, archives and repositories of what is installed.

    Args:
        imported: What this Python imports.
        needed: Paths that must stay readable. A project around one of them is not in the result, only the
            histories in it.
    """
    found: set[Path] = set()
    places = {*map(Path, imported), *installed_from()}
    for place in places:
        for folder in (place, *place.parents):
            histories = [folder / name for name in HISTORIES if os.path.lexists(folder / name)]
            found.update(histories)
            found.update(repository for history in histories for repository in repositories(history))
            if histories or any((folder / name).is_file() for name in PROJECTS):
                found.add(folder)
    found.update(installed_from())
    real = {str(place.resolve()) for place in found if os.path.lexists(place)}
    return frozenset(place for place in real if not any(_within(path, place) for path in needed))


def readable_samples(places: Iterable[str]) -> list[str]:
    """Return files in checkouts which an agent must not be able to read, for the probes."""
    inside = (*PROJECTS, ".git/HEAD", ".git/packed-refs", ".git", ".hg/requires", "HEAD", "README.md")
    candidates = (str(Path(place, name)) for place in sorted(places) for name in ("", *inside))
    return [path for path in candidates if os.path.isfile(path)]  # noqa: PTH113 - many


def installed_from() -> set[Path]:
    """Return the local folders and archives that distributions were installed from, editable or not.

    https://packaging.python.org/specifications/direct-url
    """
    found = set()
    for distribution in distributions():
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            url = urlsplit(json.loads(distribution.read_text("direct_url.json") or "{}").get("url", ""))
            if url.scheme == "file" and url.path:
                found.add(Path(unquote(url.path)))
    caches = sys.pycache_prefix
    return found | ({Path(caches)} if caches else set())


def repositories(history: Path) -> Iterator[Path]:
    """Yield the repositories of a `.git` that are elsewhere: of a work tree, a submodule or a shared clone.

    https://git-scm.com/docs/gitrepository-layout
    """
    folder = history
    if history.is_file():
        folder = history.parent / _pointer(history).removeprefix("gitdir:").strip()
        yield folder
    common = folder / (_pointer(folder / "commondir") or ".")
    yield common
    if common.resolve().name == ".git":
        yield common.resolve().parent
    for line in _pointer(common / "objects/info/alternates").splitlines():
        yield common / "objects" / line


def _pointer(path: Path) -> str:
    with suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
        return file.read(POINTER_BYTES).strip()
    return ""


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
