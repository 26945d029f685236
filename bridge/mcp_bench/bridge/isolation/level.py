"""The interface of an isolation level, and the access that an agent needs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mcp_bench.bridge.isolation import confine
from mcp_bench.bridge.isolation.support import Support
from mcp_bench.servers.home import home


@dataclass(frozen=True)
class Access:
    """Paths that an agent needs. Each is a real path and includes everything below it."""

    read: tuple[Path, ...]
    """Paths to read and execute ..."""
    masked: tuple[Path, ...]
    """... except these below them. A `read` path below a masked one is readable again."""
    write: tuple[Path, ...]
    """Paths with full access; the first is the episode's folder."""
    links: tuple[tuple[Path, str], ...] = ()
    """Symbolic links that lead to these paths, with their targets."""
    lends_login: bool = False
    """Whether `write` contains a file of the user: a lent login."""

    @property
    def hidden(self) -> tuple[Path, ...]:
        """The home of the recordings, if nothing that the agent needs is in it."""
        place = home().resolve()
        needed = any(path.is_relative_to(place) for path in (*self.read, *self.write))
        return () if needed else (place,)

    @property
    def folder(self) -> Path:
        return self.write[0]

    def unmasked(self) -> tuple[list[Path], list[Path]]:
        """Split `read` for a level that cannot mask paths inside a folder.

        Returns:
            Paths to read, with no masked path below them, and the folders that were split, whose names must
            stay listable.
        """
        whole: list[Path] = []
        split: list[Path] = []
        # strings: pathlib would take 0.1 s for each episode
        masked = {str(mask) for mask in self.masked}
        above = {str(folder) for mask in self.masked for folder in mask.parents}
        waiting = list(self.read)
        while waiting:
            place = waiting.pop()
            if str(place) not in above:
                whole.append(place)
                continue
            split.append(place)
            with os.scandir(place) as entries:  # knows links without a stat of each entry
                free = [one.path for one in entries if one.path not in masked and not one.is_symlink()]
            waiting += map(Path, free)
        return whole, split


@dataclass(frozen=True)
class Confinement:
    """How a supervisor starts an agent: `wrap`, then confine.py with these `rules`."""

    rules: dict[str, Any]
    wrap: tuple[str, ...] = ()
    launcher: str = confine.__file__


class Level(Protocol):
    """One way to isolate an agent."""

    name: str

    def support(self) -> Support:
        """Return whether this machine supports the level."""
        ...

    def refuses(self, access: Access) -> str:
        """Return why the level cannot grant this access, or an empty string if it can."""
        ...

    def confined(self, access: Access) -> AbstractContextManager[Confinement | None]:
        """Hold the level's resources while an agent runs; None: start it unconfined.

        Enter it after everything in the episode's folder exists.
        """
        ...


def rules(
    read: Iterable[Path] | None,
    write: Iterable[Path],
    *,
    listed: Iterable[Path] = (),
    uid: int | None = None,
    hidden: Iterable[Path] | None = None,
    ways: Iterable[Path] = (),
    links: Iterable[tuple[Path, str]] = (),
) -> dict[str, Any]:
    """Return the rules for confine.py, which documents them."""
    return {
        "read": None if read is None else [str(path) for path in read],
        "write": [str(path) for path in write],
        "list": [str(path) for path in listed],
        "uid": uid,
        "hidden": None if hidden is None else [str(path) for path in hidden],
        "ways": [str(path) for path in ways],
        "links": [[str(path), target] for path, target in links],
    }
