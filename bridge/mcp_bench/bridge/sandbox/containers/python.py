"""A Python for the first process of a container, whatever its image has: this one's files, mounted read-only.

Its own loader and libraries come with it, so that the image's C library does not matter (ld.so(8)).
"""

from __future__ import annotations

import _ctypes
import re
import subprocess
import sys
import sysconfig
from functools import cache
from pathlib import Path

from mcp_bench.bridge.process.agent import INTERPRETER
from mcp_bench.bridge.sandbox import keeper
from mcp_bench.bridge.sandbox.containers import first_process
from mcp_bench.bridge.sandbox.containers.files import OURS
from mcp_bench.servers.sandbox import SandboxError

PARTS = ("process", "sandbox", "isolation")
"""Folders of `mcp_bench/bridge` whose modules the first process imports."""


@cache
def mounts() -> dict[str, str]:
    """Return what to mount read-only, by place in the container.

    Raises:
        SandboxError: this Python's libraries cannot be found.
    """
    name = f"python{sys.version_info.major}.{sys.version_info.minor}"
    found = {
        f"{OURS}/python/bin/python3": INTERPRETER,
        f"{OURS}/python/lib/{name}": sysconfig.get_path("stdlib"),
    }
    for library in (INTERPRETER, _ctypes.__file__):
        for line in _needed(library):
            words = re.match(r"\s*(?:(\S+) => )?(/\S+) \(0x", line)
            if words is not None:
                target = "ld.so" if "/ld-" in words[2] else f"libraries/{words[1] or Path(words[2]).name}"
                found[f"{OURS}/{target}"] = str(Path(words[2]).resolve())
    if f"{OURS}/ld.so" not in found:
        raise SandboxError(f"{INTERPRETER} has no loader that can be mounted into a container")
    root = Path(keeper.ROOT) / "mcp_bench" / "bridge"
    return found | {f"{OURS}/code/mcp_bench/bridge/{part}": str(root / part) for part in PARTS}


def emptied() -> tuple[str, ...]:
    """Return folders of the mounted Python that the container must not see: installed packages."""
    (library,) = (place for place in mounts() if "/python/lib/" in place)
    there = Path(sysconfig.get_path("stdlib")) / "site-packages"
    return (f"{library}/site-packages",) if there.is_dir() else ()


def command() -> tuple[str, list[str]]:
    """Return the entry point of a container and its arguments."""
    program = Path(first_process.__file__).relative_to(keeper.ROOT)
    python = [f"{OURS}/python/bin/python3", "-I", "-S", f"{OURS}/code/{program}"]
    return f"{OURS}/ld.so", ["--library-path", f"{OURS}/libraries", *python]


def _needed(library: str) -> list[str]:
    try:
        done = subprocess.run(["ldd", library], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SandboxError(f"the libraries of {library} cannot be listed by ldd: {error}") from error
    return done.stdout.splitlines()
