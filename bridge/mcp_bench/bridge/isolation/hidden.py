"""What no agent and no sandbox may read: what this Python imports, its checkouts, and the recordings."""

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


@cache
def hidden() -> frozenset[str]:
    """Return what no agent may read: what this Python imports except the standard library, and recordings."""
    library = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib")}
    started = (Path(), Path(sys.argv[0]).parent)  # Python puts one of these first in sys.path
    imported = {Path(place).resolve() for place in sys.path} - {place.resolve() for place in started}
    imported |= {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib")}
    imported |= {place / kind for place in library for kind in ("site-packages", "dist-packages")}
    dynamic = {place / "lib-dynload" for place in library}
    return frozenset(map(str, (*(imported - library - dynamic), home().resolve())))


def checkouts() -> frozenset[str]:
    """Return the checkouts and histories of what this Python imports, without folders of the system."""
    needed = {
        str(Path(place).resolve())
        for place in (*SYSTEM, sysconfig.get_path("stdlib"), os.path.realpath(sys.executable))
    }
    return sources(hidden() - {str(home().resolve())}, tuple(sorted(needed)))
