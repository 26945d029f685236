"""Entry points of installed packages, as `importlib.metadata` finds them.

Every start of the command line reads them, and `importlib.metadata` takes longer to import than click: it can
read zip files, mail headers and licences. Where packages may lie in anything but folders, it does the work.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from importlib import import_module
from typing import Any

FOLDERS = (".dist-info", ".egg-info")


@dataclass(frozen=True)
class EntryPoint:
    """An object of a package, registered under a name."""

    name: str
    value: str
    """MODULE:ATTRIBUTE."""

    def load(self) -> Any:
        """Import the object."""
        module, _, attributes = self.value.partition("[")[0].strip().partition(":")
        return reduce(getattr, filter(None, attributes.strip().split(".")), import_module(module.strip()))


def entry_points(group: str) -> list[EntryPoint]:
    """Return the entry points of a group. Of two packages with one name, the first on `sys.path` counts."""
    if _unusual():
        from importlib import metadata

        return [EntryPoint(point.name, point.value) for point in metadata.entry_points(group=group)]
    return [EntryPoint(*pair) for text in _files() for pair in _pairs(text, group)]


def _unusual() -> bool:
    """Return whether packages can be found in other ways than as folders on `sys.path`."""
    finders = [one for one in sys.meta_path if getattr(one, "__name__", "") != "PathFinder"]
    return any(hasattr(one, "find_distributions") for one in finders) or any(map(os.path.isfile, sys.path))


def _files() -> Iterator[str]:
    """Yield the content of each package's `entry_points.txt`."""
    seen = set[str]()
    for place in sys.path:
        try:
            folders = [entry for entry in os.scandir(place or ".") if entry.name.lower().endswith(FOLDERS)]
        except OSError:
            continue
        for folder in folders:
            package = re.sub(r"[-_.]+", "_", folder.name.rpartition(".")[0].partition("-")[0]).lower()
            if package in seen:
                continue
            seen.add(package)
            name = os.path.join(folder.path, "entry_points.txt")
            with suppress(OSError), open(name, encoding="utf-8") as file:
                yield file.read()


def _pairs(text: str, group: str) -> Iterator[tuple[str, str]]:
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
