"""Becomes a user without any privilege, and then the program that follows: `plain_user.py UID PROGRAM ARGS`.

What Python needs may lie in a folder that only root may enter, such as /root. In mounts of this process's own,
that folder is covered by an empty one, in which Python alone is.
"""

import os
import sys
import sysconfig
from pathlib import Path

from mcp_bench.bridge.isolation import confine


def reachable_for_others() -> list[str]:
    """Return what has to be: the interpreter's own folder, and the virtual environment."""
    return [str(Path(sysconfig.get_path("stdlib")).resolve().parents[1]), str(Path(sys.prefix).resolve())]


if __name__ == "__main__":
    uid, *command = sys.argv[1:]
    confine.open_ways(reachable_for_others(), [])
    confine.become(int(uid))
    confine.forgo_capabilities()
    os.execvp(command[0], command)
