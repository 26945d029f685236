"""A hardened process cannot be inspected by other processes of its user; programs that it starts can."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mcp_bench.servers import hardening

pytestmark = pytest.mark.component

NO_RIGHTS = """
import ctypes, struct
ctypes.CDLL(None).capset(struct.pack("Ii", 0x20080522, 0), bytes(24))
"""
"""Drops root's special rights, if the test runs as root."""

TRIES = f"""{NO_RIGHTS}
import json, os
def tries(pid):
    found = dict()
    for name in ("environ", "maps", "mem", "fd/0"):
        try:
            path = "/proc/%s/%s" % (pid, name)
            os.readlink(path) if name == "fd/0" else open(path, "rb").read(0)
            found[name] = "open"
        except PermissionError:
            found[name] = "closed"
    return found
core = open("/proc/self/limits").read().split("Max core file size")[1].split()[:2]
print(json.dumps([tries(os.getppid()), tries(os.getpid()), core]))
"""
HOLDS = f"""{NO_RIGHTS}
import subprocess, sys
hardening, tries, hardens = sys.stdin.read().split("\\0")
names = dict()
exec(hardening, names)
if hardens:
    names["harden"]()
subprocess.run([sys.executable, "-I", "-S", "-c", tries], check=True)
"""


@pytest.mark.parametrize("hardens", ["yes", ""])
def test_hardened_process_is_closed_to_its_own_user(hardens: str) -> None:
    done = subprocess.run(
        [os.path.realpath(sys.executable), "-I", "-S", "-c", HOLDS],
        input="\0".join([Path(hardening.__file__).read_text(), TRIES, hardens]),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    parent, child, core = json.loads(done.stdout)
    if hardens:
        assert set(parent.values()) == {"closed"}
        assert core == ["0", "0"]
    else:
        assert (parent["environ"], parent["maps"]) == ("open", "open")
    assert (child["environ"], child["maps"]) == ("open", "open")
