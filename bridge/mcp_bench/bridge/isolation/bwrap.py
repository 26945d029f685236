"""`bwrap`: private namespaces that contain only what the agent needs (bubblewrap).

The network is shared with the machine, since the model endpoint can be local.
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
FRESH = ("--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp")  # noqa: S108 - in its own namespace


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
        if os.geteuid() == 0:  # confine.py needs it to drop all capabilities, this one included
            argv += ["--cap-add", "CAP_SETPCAP"]
        kinds = dict.fromkeys((*access.read, Path(confine.__file__)), "--ro-bind-try")
        kinds |= dict.fromkeys(access.masked, "--tmpfs") | dict.fromkeys(access.write, "--bind")
        for path, kind in sorted(kinds.items()):  # parent folders first
            if kind == "--tmpfs":
                argv += [kind, str(path)] if path.is_dir() else ["--ro-bind", os.devnull, str(path)]
            else:
                argv += [kind, str(path), str(path)]
        for link, target in access.links:
            argv += ["--symlink", target, str(link)]
        # root can write /proc/sys without any capability, including the program that handles core files
        sealed = ("--remount-ro", "/proc", "--remount-ro", "/")
        # bwrap restricts files; Landlock restricts abstract sockets, which belong to the network namespace
        yield Confinement(rules(None, ()), (*argv, *sealed, "--"))


LEVEL: Level = Bwrap()
