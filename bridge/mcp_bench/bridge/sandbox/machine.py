"""What a keeper needs of its machine: a folder, a user, control groups, and what must be out of reach.

Standard library only: it runs on other machines, too (`runners/elsewhere.py`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from typing import Any

from mcp_bench.bridge.isolation.hidden import checkouts, hidden
from mcp_bench.bridge.isolation.uid import UIDS, leased_uid
from mcp_bench.bridge.sandbox import probe
from mcp_bench.bridge.sandbox.cgroups import Groups, Shares, groups
from mcp_bench.bridge.sandbox.leftovers import state_folder
from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.home import home

BLOCKS = 0x10000000
"""The first of the ids that sandboxes of root use besides their user's: 65536 for each of `UIDS`."""
BLOCK = 1 << 16


@contextmanager
def keepers_place(limits: Shares, *, host: bool, network: bool) -> Iterator[dict[str, Any]]:
    """Make the place of one sandbox on this machine, and remove it at the end.

    Args:
        host: whether this machine's programs are below the sandbox.
        network: whether the sandbox has the machine's network.

    Yields:
        The machine's part of `keeper.Spec`, JSON; and `folder`, the bubblewrap's `version`, and whether the
        keeper must limit memory and processors by control groups (`limit_memory`) or not (`limit_cpus`).

    Raises:
        SandboxError: bubblewrap is missing, or the folder cannot be made.
    """
    program = shutil.which("bwrap")
    if program is None:
        raise SandboxError("bwrap is not on PATH: install the package bubblewrap")
    with ExitStack() as held:
        root = os.geteuid() == 0
        uid = held.enter_context(leased_uid() if root else nullcontext())
        folder = held.enter_context(state_folder(uid))
        made = held.enter_context(
            groups(f"{os.getpid()}-{folder.name}", limits) if root else nullcontext(Groups())
        )
        state = str(folder / "state")
        yield {
            "folder": str(folder),
            "state": state,
            "masked": list(masked()) if host else [],
            "uid": uid,
            "block": None if uid is None else first_of_block(uid),
            "cgroups": [str(group) for group in made.folders],
            "limit_cpus": not made.cpus,
            "limit_memory": made.memory,
            "bwrap": program,
            "version": said_by(program, "--version").strip().rpartition(" ")[2],
            "sized": "--size" in said_by(program, "--help"),
            "probes": probe.arguments(state, str(home().resolve()), 0 if uid else None, network=network),
        }


def first_of_block(uid: int) -> int:
    """Return the first of the 65536 ids that only the sandbox with this user has."""
    return BLOCKS + (uid - UIDS.start) * BLOCK


@cache
def masked() -> tuple[str, ...]:
    """Return the folders of /usr that a sandbox must not see: what this Python imports, and its checkouts."""
    places = sorted(hidden() | checkouts())
    return tuple(place for place in places if place.startswith("/usr/") and Path(place).is_dir())


@cache
def said_by(program: str, option: str) -> str:
    done = subprocess.run([program, option], capture_output=True, check=False, text=True)
    return done.stdout
