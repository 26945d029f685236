"""What no agent and no sandbox may read: what this Python imports, its checkouts, recordings, and keys."""

from __future__ import annotations

import os
import sys
import sysconfig
from functools import cache
from pathlib import Path

from mcp_bench.bridge.isolation.checkouts import sources
from mcp_bench.servers.home import home

SYSTEM = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/gnu/store"),
    # files in /etc that programs need to start, and for DNS and TLS
    *("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ld.so.preload"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates", "/etc/ca-certificates.conf", "/etc/crypto-policies"),
    *("/etc/resolv.conf", "/etc/hosts", "/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf"),
    *("/etc/services", "/etc/protocols", "/etc/passwd", "/etc/group", "/etc/localtime", "/etc/timezone"),
    *("/etc/os-release", "/etc/debian_version", "/etc/locale.alias", "/etc/mime.types", "/etc/terminfo"),
    *("/etc/profile", "/etc/profile.d", "/etc/bash.bashrc", "/etc/inputrc", "/etc/gitconfig"),
    *("/sys/devices/system/cpu", "/sys/devices/system/node", "/sys/fs/cgroup"),
)
KEYS = ("ssl/private", "pki/**/private")
"""Folders in /etc with the machine's private keys, which root can read."""


@cache
def hidden() -> frozenset[str]:
    """Return what no agent may read: where this Python imports from, the recordings, the machine's keys."""
    keys = (str(place.resolve()) for pattern in KEYS for place in Path("/etc").glob(pattern))
    return imported() | {str(home().resolve()), *keys}


@cache
def imported() -> frozenset[str]:
    """Return where this Python imports from, except the standard library."""
    library = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    started = (Path(), Path(sys.argv[0]).parent)  # Python puts one of these first in sys.path
    found = {Path(place).resolve() for place in sys.path} - {place.resolve() for place in started}
    found |= {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    found |= {place / kind for place in library for kind in ("site-packages", "dist-packages")}
    dynamic = {place / "lib-dynload" for place in library}
    return frozenset(map(str, found - library - dynamic))


def checkouts() -> frozenset[str]:
    """Return the checkouts and histories of what this Python imports, without folders of the system."""
    needed = {
        str(Path(place).resolve())
        for place in (*SYSTEM, sysconfig.get_path("stdlib"), os.path.realpath(sys.executable))
    }
    return sources(imported() - {str(home().resolve())}, tuple(sorted(needed)))
