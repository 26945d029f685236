"""Compute the paths that an agent needs from its program, its launch and its folder.

The agent can reach nothing else. Readable folders are masked in part: the agent must not see the modules that
this Python imports (benchmarks are among them), the checkouts that they come from, nor the home of the
recordings.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from mcp_bench.bridge.isolation.hidden import SYSTEM, checkouts, hidden
from mcp_bench.bridge.isolation.level import Access
from mcp_bench.bridge.process.agent import INTERPRETER
from mcp_bench.plugins.contracts import Installation, Launch

MODULES = "node_modules"
FIRST_LINE_BYTES = 256


def access(
    installation: Installation, launch: Launch | None, folder: Path, environ: Mapping[str, str]
) -> Access:
    """Return the paths that an agent needs.

    Args:
        folder: The episode's folder, fully prepared by the plugin. The agent can read the targets of links in
            it, and of links in the folder of a launch's Python modules.
        environ: The agent's environment.
    """
    path = environ.get("PATH", os.defpath)
    words = (installation.executable, *(launch.argv if launch else ()))
    named = [place for word in dict.fromkeys(words) if (place := existing(word, path)) is not None]
    parts = [part for program in named for part in program_parts(program, path)]
    links = Links()
    read = {followed(place, links) for place in dict.fromkeys((*map(Path, SYSTEM), *parts))}
    # explicitly named paths count even below a mask
    modules = launch.warm_start.folder if launch and launch.warm_start else None
    imported = () if modules is None else (modules, *linked(modules))
    wanted = {followed(place, links) for place in (*named, *linked(folder), *imported)}
    lent = [followed(place, links) for place in (launch.login.paths if launch and launch.login else ())]
    write = (str(folder.resolve()), *filter(os.path.exists, lent))
    closed, around = hidden(), checkouts()
    masks = closed | around
    # a program can be part of a checkout, such as the virtual environment or the node_modules in it
    read = {place for place in read if not within(place, closed) and place not in around} | wanted
    read = {place for place in read if not within(place, write)}
    tops = topmost(filter(os.path.exists, read), masks)
    masked = sorted(mask for mask in masks if within(mask, tops) and os.path.exists(mask))  # noqa: PTH110
    away = ((link, target) for link, target in links.items() if target)
    kept = tuple((Path(link), target) for link, target in away if not within(link, {*tops, *write}))
    return Access(paths(tops), paths(masked), paths(write), kept, lends_login=bool(lent))


def paths(places: Iterable[str]) -> tuple[Path, ...]:
    return tuple(map(Path, places))


def existing(word: str, path: str) -> Path | None:
    """Return the file that a word of a command names; programs are looked up on `path`."""
    found = word if "/" in word else shutil.which(word, path=path)
    # os.path: a word can be a long text, for which pathlib raises an error
    return Path(found).absolute() if found and os.path.isfile(found) else None  # noqa: PTH113


def program_parts(program: Path, path: str) -> Iterator[Path]:
    """Yield a program and what it needs: its packages, its interpreter and so on."""
    yield Path(INTERPRETER)
    yield from python_prefix(Path(INTERPRETER))
    met: set[Path] = set()
    waiting = [program]
    while waiting:
        this = waiting.pop()
        if this in met:
            continue
        met.add(this)
        yield this
        real = this.resolve()
        for place in (this, real):
            if MODULES in place.parts:
                yield Path(*place.parts[: place.parts.index(MODULES) + 1])
            if (place.parent.parent / "pyvenv.cfg").is_file():
                yield place.parent.parent
        yield from python_prefix(real)
        waiting += [found for word in shebang(real) if (found := existing(word, path)) is not None]


def python_prefix(program: Path) -> Iterator[Path]:
    """Yield the installation folder of `program` if it is a Python outside /usr."""
    prefix = program.parent.parent
    if program.name.startswith("python") and any(prefix.glob("lib/python3*")):
        yield prefix


def shebang(program: Path) -> list[str]:
    """Return the words of a script's first line (`#!`)."""
    try:
        with program.open("rb") as file:
            line = file.readline(FIRST_LINE_BYTES)
    except OSError:
        return []
    return line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []


def linked(folder: Path) -> Iterator[Path]:
    """Yield the targets of the links in a folder."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            link = os.path.join(place, name)  # noqa: PTH118 - see Links
            if os.path.islink(link):  # noqa: PTH114
                yield Path(place, os.readlink(link))  # noqa: PTH115


class Links(dict[str, str]):
    """Cache of symbolic link targets by path; empty for a path that is no link.

    It uses strings, since pathlib would take 0.1 s for each episode.
    """

    def __missing__(self, path: str) -> str:
        try:
            self[path] = os.readlink(path)  # noqa: PTH115
        except OSError:
            self[path] = ""
        return self[path]


def followed(place: Path, links: Links) -> str:
    """Return the real path of a place."""
    at = ""
    waiting = list(reversed(place.absolute().parts[1:]))
    links_left = 64  # more than the kernel follows
    while waiting:
        name = waiting.pop()
        if name == "..":
            at = at.rpartition("/")[0]
        elif links_left and (target := links[f"{at}/{name}"]):
            links_left -= 1
            waiting += [part for part in reversed(target.split("/")) if part not in ("", ".")]
            at = "" if target.startswith("/") else at
        else:
            at = f"{at}/{name}"
    return at or "/"


def topmost(places: Iterable[str], masks: Collection[str]) -> Collection[str]:
    """Return the places without those that a parent folder already includes."""
    chosen: dict[str, None] = {}
    for place in sorted(set(places)):
        nearest = next((folder for folder in upwards(place) if folder in chosen or folder in masks), None)
        if nearest is None or nearest in masks:
            chosen[place] = None
    return chosen.keys()


def within(place: str, folders: Collection[str]) -> bool:
    """Return whether a path is one of the folders or inside one of them."""
    return any(folder in folders for folder in upwards(place))


def upwards(place: str) -> Iterator[str]:
    """Yield a path and its parent folders."""
    while place:
        yield place
        place = place.rpartition("/")[0]
    yield "/"
