"""What a level of isolation is, and what it makes of an agent's needs."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from mcp_bench.bridge.isolation import confine
from mcp_bench.bridge.isolation.support import Support


@dataclass(frozen=True)
class Access:
    """What an agent has to be able to reach. Real paths: each stands for all that is below it."""

    read: tuple[Path, ...]
    """To read, and to execute, ..."""
    masked: tuple[Path, ...]
    """... but for these, which lie below some of them, and yet for those of them that lie below these."""
    write: tuple[Path, ...]
    """To do anything with; the episode's folder is the first."""
    links: tuple[tuple[Path, str], ...] = ()
    """Symbolic links on the way there, and where they lead."""
    lends_login: bool = False
    """A file of the user's is among `write`."""

    @property
    def folder(self) -> Path:
        return self.write[0]

    def unmasked(self) -> tuple[list[Path], list[Path]]:
        """Return `read` for those who cannot take anything out of a folder: what may be read, as many
        places as it takes, and the folders that were taken apart, whose names at least are needed."""
        whole: list[Path] = []
        apart: list[Path] = []
        # strings: pathlib would take a tenth of a second for each episode
        masked = {str(mask) for mask in self.masked}
        above = {str(folder) for mask in self.masked for folder in mask.parents}
        waiting = list(self.read)
        while waiting:
            place = waiting.pop()
            if str(place) not in above:
                whole.append(place)
                continue
            apart.append(place)
            with os.scandir(place) as entries:  # which tells links without a look at each
                free = [one.path for one in entries if one.path not in masked and not one.is_symlink()]
            waiting += map(Path, free)
        return whole, apart


@dataclass(frozen=True)
class Confinement:
    """How a supervisor starts an agent: `wrap`, then confine.py with these `rules`."""

    rules: dict[str, Any]
    wrap: tuple[str, ...] = ()
    launcher: str = confine.__file__


class Level(Protocol):
    """One way to keep an agent apart."""

    name: str

    def support(self) -> Support:
        """Say whether this machine offers it."""
        ...

    def refuses(self, access: Access) -> str:
        """Say why it cannot give an agent this access; empty where it can."""
        ...

    def confined(self, access: Access) -> AbstractContextManager[Confinement | None]:
        """Hold what an agent needs of the level while it runs; None: it is started as it is.

        Enter it when all that the agent is to find in its folder is there.
        """
        ...


def rules(
    read: Iterable[Path] | None,
    write: Iterable[Path],
    *,
    listed: Iterable[Path] = (),
    uid: int | None = None,
    ways: Iterable[Path] = (),
    links: Iterable[tuple[Path, str]] = (),
) -> dict[str, Any]:
    """Return the rules for confine.py, which says what they mean."""
    return {
        "read": None if read is None else [str(path) for path in read],
        "write": [str(path) for path in write],
        "list": [str(path) for path in listed],
        "uid": uid,
        "ways": [str(path) for path in ways],
        "links": [[str(path), target] for path, target in links],
    }
