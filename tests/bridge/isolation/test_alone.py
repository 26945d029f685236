"""A program that runs alone leaves nothing to the next one in its sandbox."""

from __future__ import annotations

import ctypes.util
import json

import anyio
import pytest

from mcp_bench.bridge.isolation import alone
from mcp_bench.bridge.isolation.confine import ARCHITECTURES
from mcp_bench.bridge.sandbox.engine import engines
from mcp_bench.servers.sandbox import SandboxSpec
from tests.support.requirements import needs, skip

BWRAP = engines()["bwrap"]
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.component,
    needs("bwrap", BWRAP.support().works, BWRAP.support().detail),
]
TRIES = """
import errno, fcntl, json, os, socket, struct, sys
place = "/work/kept"
tries = {
    "content": lambda: open(place, "w"),
    "attribute": lambda: os.setxattr(place, "user.kept", b"1"),
    "attribute of a link": lambda: os.setxattr(place, "user.kept", b"1", follow_symlinks=False),
    "attribute removed": lambda: os.removexattr(place, "user.kept"),
    "time": lambda: os.utime(place, (1, 1)),
    "mode": lambda: os.chmod(place, 0o751),
    "owner": lambda: os.chown(place, 0, 0),
    "length": lambda: os.truncate(place, 0),
    "flags": lambda: fcntl.ioctl(os.open(place, os.O_RDONLY), 0x40086602, bytes(8)),
    "project": lambda: fcntl.ioctl(os.open(place, os.O_RDONLY), 0x401C5820, bytes(28)),
    "write hint": lambda: fcntl.fcntl(os.open(place, os.O_RDONLY), 1036, struct.pack("Q", 2)),
    "connection": lambda: socket.socket(),
}
found = {}
for name, attempt in tries.items():
    try:
        attempt()
        found[name] = "done"
    except OSError as error:
        found[name] = errno.errorcode[error.errno]
fcntl.ioctl(0, 0x541B, bytes(4))  # FIONREAD
fcntl.fcntl(0, fcntl.F_GETFD)
socket.socketpair()
said = json.dumps(found).encode()
sys.stdout.buffer.write(struct.pack("<Q", len(said)) + said)
sys.stdout.buffer.flush()
sys.stdin.read()
"""


async def test_no_mark_stays_on_a_file_or_in_the_network() -> None:
    """Landlock has no right for most of them: without the filter, the next process reads what it likes."""
    with anyio.fail_after(120):
        async with BWRAP.sandbox(SandboxSpec()) as sandbox:
            await sandbox.write("kept", b"text")
            await sandbox.write("program.py", TRIES.encode())
            started = await sandbox.start(["python3", "program.py"], seconds=30)
    assert started.bodies, started.log
    found = json.loads(started.bodies[0])
    assert {name: outcome for name, outcome in found.items() if outcome not in ("EPERM", "EACCES")} == {}


def test_the_numbers_are_those_of_libseccomp() -> None:
    library = ctypes.util.find_library("seccomp")
    if library is None:
        skip("libseccomp", "it is not installed")
    known = ctypes.CDLL(library).seccomp_syscall_resolve_name_arch
    tables = {**alone.REFUSED, **{name: numbers for name, (numbers, _) in alone.BY_REQUEST.items()}}
    for name, row in tables.items():
        for (architecture, audit), number in zip(ARCHITECTURES.items(), row, strict=True):
            resolved = known(ctypes.c_uint32(audit), name.encode())
            assert resolved < 0 or resolved == number, (name, architecture)
