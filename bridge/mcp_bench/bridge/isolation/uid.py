"""`uid`: a separate user for each episode, plus Landlock. Needs root.

A separate user cannot reach other users' processes, terminals and private files. Landlock also blocks
world-readable files, such as the benchmarks' source.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp_bench.bridge.isolation import support
from mcp_bench.bridge.isolation.landlock import DEVICES, PROC
from mcp_bench.bridge.isolation.level import Access, Confinement, Level, rules
from mcp_bench.bridge.isolation.support import Support
from mcp_bench.servers.errors import BenchError

UIDS = range(60578, 61184)
"""Unused by convention (https://systemd.io/UIDS-GIDS)."""
LEASES = Path("/run/mcp-bench-uids")
"""One folder per machine: all recording homes share the user ids."""
TERMINALS = (Path("/dev/pts"),)
"""Terminals of other users stay protected by their owner."""


class OtherUser:
    name = "uid"

    def support(self) -> Support:
        return support.uid()

    def refuses(self, access: Access) -> str:
        if access.lends_login:
            return "the login is a file of yours, which cannot be lent to another user"
        return ""

    @contextmanager
    def confined(self, access: Access) -> Iterator[Confinement]:
        with leased_uid() as uid:
            hand_over(access.folder, uid)
            read, listed = access.unmasked()
            yield Confinement(
                rules(
                    (*read, *PROC),
                    (*access.write, *DEVICES, *TERMINALS),
                    listed=listed,
                    uid=uid,
                    hidden=access.hidden,
                    ways=(*access.read, *access.write),
                    links=access.links,
                )
            )


LEVEL: Level = OtherUser()


@contextmanager
def leased_uid() -> Iterator[int]:
    """Yield a user id that no other episode on this machine uses.

    It locks a file named after the id, in a folder that no agent can access. The kernel releases the lock
    when this process ends for any reason.

    Raises:
        BenchError: all ids are in use, or the folder cannot be made.
    """
    try:
        LEASES.mkdir(mode=0o700, exist_ok=True)
        for uid in UIDS:
            lease = os.open(LEASES / str(uid), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(lease, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(lease)
                continue
            break
        else:
            raise BenchError(f"all {len(UIDS)} user ids for episodes are in use")
    except OSError as error:
        raise BenchError(f"no user id can be leased in {LEASES}: {error.strerror}") from error
    try:
        yield uid
    finally:
        os.close(lease)


def hand_over(folder: Path, uid: int) -> None:
    """Change the owner of a folder and its contents. Links change owner, their targets do not.

    The folder itself comes last: until then, no process of this user can enter it.
    """
    for _, folders, files, place in os.fwalk(folder, topdown=False):
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=place, follow_symlinks=False)
        os.chown(place, uid, uid)
