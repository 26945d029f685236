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
from functools import cache, reduce
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
    return [EntryPoint(*pair) for text in _texts() for pair in _pairs(text, group)]


def _unusual() -> bool:
    """Return whether packages can be found in other ways than as folders on `sys.path`."""
    finders = [one for one in sys.meta_path if getattr(one, "__name__", "") != "PathFinder"]
    return any(hasattr(one, "find_distributions") for one in finders) or any(map(os.path.isfile, sys.path))


def _texts() -> Iterator[str]:
    """Yield the content of each package's `entry_points.txt`."""
    seen = set[str]()
    for place in sys.path:
        with suppress(OSError):
            place = os.path.abspath(place)
            for package, text in _packages(place, os.stat(place).st_mtime_ns):
                if package not in seen:
                    seen.add(package)
                    yield text


@cache
def _packages(place: str, changed: int) -> list[tuple[str, str]]:
    """Return the packages in a folder, as it was changed last, with their `entry_points.txt`.

    A command asks for several groups, and hundreds of packages may be installed.
    """
    found = []
    for folder in os.scandir(place):
        if folder.name.lower().endswith(FOLDERS):
            package = re.sub(r"[-_.]+", "_", folder.name.rpartition(".")[0].partition("-")[0]).lower()
            text = ""
            with suppress(OSError), open(f"{folder.path}/entry_points.txt", encoding="utf-8") as file:
                text = file.read()
            found.append((package, text))
    return found


def _pairs(text: str, group: str) -> Iterator[tuple[str, str]]:
    inside = False
    for line in map(str.strip, text.splitlines()):
        if line.startswith("["):
            inside = line == f"[{group}]"
        elif inside and line and not line.startswith("#"):
            name, _, value = line.partition("=")
            yield name.strip(), value.strip()
