"""`bwrap`: namespaces of its own, with nothing in them but what the agent needs (bubblewrap).

The network is the machine's: the model endpoint may be on it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp_bench.bridge.isolation import confine, support
from mcp_bench.bridge.isolation.level import Access, Confinement, Level, rules
from mcp_bench.bridge.isolation.support import Support

OWN = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
FRESH = ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108 - its own


class Bwrap:
    name = "bwrap"

    def support(self) -> Support:
        return support.bwrap()

    def refuses(self, access: Access) -> str:
        return ""

    @contextmanager
    def confined(self, access: Access) -> Iterator[Confinement]:
        program = shutil.which("bwrap") or "bwrap"
        argv = [program, *OWN, "--die-with-parent", "--cap-drop", "ALL", *FRESH]
        if os.geteuid() == 0:  # for confine.py, which gives it up with all that it takes away
            argv += ["--cap-add", "CAP_SETPCAP"]
        kinds = dict.fromkeys((*access.read, Path(confine.__file__)), "--ro-bind-try")
        kinds |= dict.fromkeys(access.masked, "--tmpfs") | dict.fromkeys(access.write, "--bind")
        for path, kind in sorted(kinds.items()):  # what is above goes first
            argv += [kind, str(path)] if kind == "--tmpfs" else [kind, str(path), str(path)]
        for link, target in access.links:
            argv += ["--symlink", target, str(link)]
        # /proc/sys is root's to write without any capability, what is started for core files included
        sealed = ("--remount-ro", "/proc", "--remount-ro", "/")
        # files are bwrap's business; Landlock closes abstract sockets, which belong to the network
        yield Confinement(rules(None, ()), (*argv, *sealed, "--"))


LEVEL: Level = Bwrap()
