"""The folder of one sandbox, and those that killed referees left.

Its owner holds a lock on it, and the next start removes those that nobody holds (left_folders.py).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from mcp_bench.bridge.wire.remove_folder import remove_folder
from mcp_bench.servers.errors import SandboxError
from mcp_bench.servers.left_folders import left, lock

PREFIX = "mcp-bench-box-"
"""Earlier versions, which hold no lock, had another one: a folder of theirs can be in use."""


@contextmanager
def state_folder(uid: int | None) -> Iterator[Path]:
    """Yield a new folder with a folder `state` for the sandbox's files, which belongs to its user."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        held = lock(folder)
        folder.chmod(0o711)
        state = folder / "state"
        state.mkdir(mode=0o700)
        if uid is not None:
            os.chown(state, uid, uid)
    except OSError as error:
        raise SandboxError(
            f"cannot create the folder of a sandbox: {error}. Set TMPDIR to a writable folder"
        ) from error
    try:
        yield folder
    finally:
        remove_folder(folder, held)
        os.close(held)


@cache
def remove_leftovers_once() -> None:
    """Remove, once in this process, what killed ones left."""
    remove_leftovers()


def remove_leftovers(parent: Path | None = None) -> list[Path]:
    """Remove the folders of sandboxes whose owner was killed, and return them.

    Only folders of this user are touched, and no link is followed. What belongs to users that only the
    sandbox's user namespace had (subuid(5)) stays where this process is not root.

    Args:
        parent: where to look; default: the temporary directory.
    """
    removed = []
    for path, held in left(PREFIX, parent):
        remove_folder(path, held)
        removed += [] if path.exists() else [path]
    return removed
