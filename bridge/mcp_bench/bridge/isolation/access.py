"""What an agent needs of the machine: worked out from its program, its launch and its folder.

Whatever is not named here is out of its reach. Folders that it may read are left out in part where something
lies in them that is none of its business: what this Python imports (benchmarks are among it), and the home
of the recordings.
"""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

from mcp_bench.bridge.agent_process import INTERPRETER
from mcp_bench.bridge.isolation.level import Access
from mcp_bench.plugins.contracts import Installation, Launch
from mcp_bench.recorder.paths import home

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    # of /etc what programs need to start, to find hosts and to trust them
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/timezone"),
    *("/etc/os-release", "/etc/debian_version", "/etc/locale.alias", "/etc/mime.types", "/etc/terminfo"),
    *("/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/inputrc", "/etc/gitconfig"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/fs/cgroup"),
)
MODULES = "node_modules"
FIRST_LINE_BYTES = 256


def access(
    installation: Installation, launch: Launch | None, folder: Path, environ: Mapping[str, str]
) -> Access:
    """Return what an agent needs.

    `folder` is the episode's, in which its plugin has prepared everything: where that put a link, the agent
    may read what it leads to. `environ` is the agent's environment.
    """
    path = environ.get("PATH", os.defpath)
    words = (installation.executable, *(launch.argv if launch else ()))
    named = [place for word in dict.fromkeys(words) if (place := existing(word, path)) is not None]
    parts = [part for program in named for part in program_parts(program, path)]
    links: dict[Path, str] = {}
    read = {followed(place, links) for place in dict.fromkeys((*map(Path, SYSTEM), *parts))}
    # what was named on purpose counts, wherever it is
    wanted = {followed(place, links) for place in (*named, *linked(folder))}
    lent = [followed(place, links) for place in (launch.login.paths if launch and launch.login else ())]
    write = (folder.resolve(), *(place for place in lent if place.exists()))
    masks = hidden()
    read = {place for place in read if not within(place, masks)} | wanted
    read = {place for place in read if not within(place, write)}
    tops = topmost((place for place in read if place.exists()), masks)
    masked = tuple(sorted(mask for mask in masks if within(mask, tops) and mask.exists()))
    away = {link: target for link, target in links.items() if not within(link, (*tops, *write))}
    return Access(tops, masked, write, tuple(away.items()), lends_login=bool(lent))


def existing(word: str, path: str) -> Path | None:
    """Return the file that a word of a command names; programs are looked for on `path`."""
    found = word if "/" in word else shutil.which(word, path=path)
    if found is None or not Path(found).is_file():
        return None
    return Path(found).absolute()


def program_parts(program: Path, path: str) -> Iterator[Path]:
    """Yield what a program needs to be there besides itself: its packages, its interpreter and so on."""
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
    """Yield the folder that a Python is installed in, where `program` is one outside of /usr."""
    prefix = program.parent.parent
    if program.name.startswith("python") and any(prefix.glob("lib/python3*")):
        yield prefix


def shebang(program: Path) -> list[str]:
    """Return the programs that a script's first line names."""
    try:
        with program.open("rb") as file:
            line = file.readline(FIRST_LINE_BYTES)
    except OSError:
        return []
    return line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []


def linked(folder: Path) -> Iterator[Path]:
    """Yield what the links in a folder lead to."""
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            link = Path(place, name)
            if link.is_symlink():
                yield link.parent / link.readlink()


@cache
def hidden() -> frozenset[Path]:
    """Return what no agent may read: all that this Python imports but its own library, and the recordings."""
    library = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    started = (Path(), Path(sys.argv[0]).parent)  # Python puts one of these in front, whatever is in it
    imported = {Path(place).resolve() for place in sys.path} - {place.resolve() for place in started}
    imported |= {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    imported |= {place / kind for place in library for kind in ("site-packages", "dist-packages")}
    dynamic = {place / "lib-dynload" for place in library}
    return frozenset({*(imported - library - dynamic), home().resolve()})


def followed(place: Path, links: dict[Path, str]) -> Path:
    """Return where a path really leads; the symbolic links on the way are added to `links`."""
    at = Path("/")
    waiting = list(reversed(place.absolute().parts[1:]))
    budget = 64  # as many as would be followed by the kernel, and some more
    while waiting:
        name = waiting.pop()
        if name == "..":
            at = at.parent
            continue
        if (at / name).is_symlink() and budget:
            budget -= 1
            target = str((at / name).readlink())
            links[at / name] = target
            waiting += [part for part in reversed(Path(target).parts) if part != "/"]
            at = Path("/") if target.startswith("/") else at
        else:
            at /= name
    return at


def topmost(places: Iterable[Path], masks: Collection[Path]) -> tuple[Path, ...]:
    """Return the places without those that come with a folder above them."""
    chosen: list[Path] = []
    for place in sorted(set(places)):
        above = [folder for folder in chosen if below(place, folder)]
        hiding = (mask for mask in masks if below(place, mask))
        if not above or any(below(mask, above[-1]) for mask in hiding):
            chosen.append(place)
    return tuple(chosen)


def below(place: Path, folder: Path) -> bool:
    """Whether a path is a folder or in it; with strings, since pathlib would take a tenth of a second."""
    return str(place) == str(folder) or str(place).startswith(f"{folder}/")


def within(place: Path, folders: Iterable[Path]) -> bool:
    return any(below(place, folder) for folder in folders)
