"""Become a user without privileges, and execute a program: `plain_user.py UID PROGRAM ARGS`.

Python's files can be in a folder that only root can enter, such as /root. In a private mount namespace, an empty
folder that has only Python covers that folder.
"""

import os
import sys
import sysconfig
from pathlib import Path

from mcp_bench.bridge.isolation import confine


def reachable_for_others() -> list[str]:
    """Return the required folders: the interpreter's own, and the virtual environment."""
    return [str(Path(sysconfig.get_path("stdlib")).resolve().parents[1]), str(Path(sys.prefix).resolve())]


if __name__ == "__main__":
    uid, *command = sys.argv[1:]
    confine.open_ways(reachable_for_others(), [])
    confine.become(int(uid))
    confine.forgo_capabilities()
    os.execvp(command[0], command)
