"""`bwrap`: private namespaces that contain only what the agent needs (bubblewrap).

The network is shared with the machine, since the model endpoint can be local.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from mcp_bench.bridge.isolation import confine, support
from mcp_bench.bridge.isolation.level import Access, Confinement, Level, rules
from mcp_bench.bridge.isolation.support import Support

OWN = ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
MEMORY_FOLDERS = ("/tmp", "/dev/shm")  # noqa: S108 - in its own namespace
MEMORY_FOLDER_BYTES = 1 << 30
"""Size of each folder of files in memory, which belong to no process; the kernel's default is half of it."""


@cache
def fresh(program: str) -> tuple[str, ...]:
    """Return what mounts the private folders; bubblewrap sizes them since version 0.7."""
    help_text = subprocess.run([program, "--help"], capture_output=True, check=False).stdout
    size = ("--size", str(MEMORY_FOLDER_BYTES)) if b"--size" in help_text else ()
    folders = (word for folder in MEMORY_FOLDERS for word in (*size, "--tmpfs", folder))
    return ("--proc", "/proc", "--dev", "/dev", *folders, "--remount-ro", "/dev")


class Bwrap:
    name = "bwrap"

    def support(self) -> Support:
        return support.bwrap()

    def refuses(self, access: Access) -> str:
        return ""

    @contextmanager
    def confined(self, access: Access) -> Iterator[Confinement]:
        program = shutil.which("bwrap") or "bwrap"
        argv = [program, *OWN, "--die-with-parent", "--cap-drop", "ALL", *fresh(program)]
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
