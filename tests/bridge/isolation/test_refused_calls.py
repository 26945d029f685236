"""System calls that reach other processes, or memory that outlives an episode, are refused at every level."""

import ctypes.util
import json
import platform
from collections.abc import Callable

import pytest

from mcp_bench.bridge.isolation import confine
from tests.support.levels import each_level
from tests.support.requirements import skip

pytestmark = pytest.mark.system

TRIES = """
import ctypes, errno, mmap, signal, threading
Server().connect()
libc = ctypes.CDLL(None, use_errno=True)
NUMBERS, EMULATED = {numbers}, {emulated}

def failed(result):
    return errno.errorcode[ctypes.get_errno()] if result < 0 else "done"

outcomes = {{name: failed(libc.syscall(number, 0, 0, 0, 0, 0, 0)) for name, number in NUMBERS.items()}}
referee = 1
for name, attempt in {{
    "processors": lambda: os.sched_setaffinity(referee, os.sched_getaffinity(0)),
    "class": lambda: os.sched_setscheduler(referee, os.SCHED_BATCH, os.sched_param(0)),
    "priority of a user": lambda: os.setpriority(os.PRIO_USER, 0, 0),
    "priority of another": lambda: os.setpriority(os.PRIO_PROCESS, referee, 0),
}}.items():
    try:
        outcomes[name] = attempt() or "done"
    except OSError as error:
        outcomes[name] = errno.errorcode[error.errno]
if EMULATED:  # mov eax, NUMBER; xor ebx, ebx; int 0x80; ret
    for name, number in EMULATED.items():
        page = mmap.mmap(-1, 4096, prot=7)
        page.write(b"\\xb8" + number.to_bytes(4, "little") + b"\\x53\\x31\\xdb\\xcd\\x80\\x5b\\xc3")
        call = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
        outcomes["i386 " + name] = errno.errorcode[-call()]
lower = min(19, os.getpriority(os.PRIO_PROCESS, 0) + 5)
own = [os.sched_setaffinity(0, os.sched_getaffinity(0)), os.setpriority(os.PRIO_PROCESS, 0, lower)]
own.append(os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0)))
print(json.dumps([outcomes, own]))
"""


@each_level()
def test_each_refused_call_fails(bench, script: Callable[[str], str], level: str) -> None:
    machine = platform.machine()
    if machine not in confine.ARCHITECTURES:
        pytest.skip(f"{machine}: no filter")
    place = list(confine.ARCHITECTURES).index(machine)
    refused = {name: row[place] for name, row in confine.REFUSED.items() if row[place] is not None}
    emulated = {"keyctl": 288, "ipc": 117, "shmget": 395} if machine == "x86_64" else {}
    option = script(TRIES.format(numbers=refused, emulated=emulated))
    bench.run(
        "record", "--agent", "script", "--agent-option", option, "--benchmark", "notebook",
        "--task", "numbers", "--isolation", level,
    )  # fmt: skip
    (episode,) = bench.rows("select answer, probes from episodes")
    outcomes, own = json.loads(episode["answer"])
    assert {name: outcome for name, outcome in outcomes.items() if outcome != "EPERM"} == {}
    assert own == [None, None, None]
    assert {"scheduling", "keyring", "shared"} <= json.loads(episode["probes"]).keys()


def test_the_numbers_are_those_of_libseccomp() -> None:
    found = ctypes.util.find_library("seccomp")
    if found is None:
        skip("libseccomp", "it is not installed")
    known = ctypes.CDLL(found).seccomp_syscall_resolve_name_arch
    tables = {**confine.REFUSED, **confine.OF_OTHERS, **confine.BY_KIND, "prlimit64": confine.PRLIMIT64}
    for name, row in tables.items():
        for (architecture, audit), number in zip(confine.ARCHITECTURES.items(), row, strict=True):
            resolved = known(ctypes.c_uint32(audit), name.encode())
            assert resolved < 0 or resolved == number, (name, architecture)
