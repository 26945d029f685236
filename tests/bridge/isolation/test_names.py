"""An agent learns neither the tasks nor the place of the recordings from command lines, open files or events."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

import pytest

from tests.support.levels import each_level

pytestmark = pytest.mark.system

LOOKS = """
import ctypes, glob
Server().connect()
libc = ctypes.CDLL(None, use_errno=True)
seen = b""
for place in glob.glob("/proc/[0-9]*/cmdline"):
    try:
        seen += open(place, "rb").read()
    except OSError:
        pass
watched = []
for path in (HOME, HOME + "/runs", *glob.glob(HOME + "/runs/*")):
    if libc.inotify_add_watch(libc.inotify_init1(0), path.encode(), 2) >= 0:
        watched.append(path)
print(json.dumps({
    "tasks": [word for word in ("numbers", "--task") if word.encode() in seen],
    "outputs": [os.readlink(f"/proc/self/fd/{number}") for number in (1, 2)],
    "watched": watched,
    "own": str(os.getpid()) in os.listdir("/proc"),
}))
"""


@each_level()
def test_an_agent_learns_no_names(bench, script: Callable[[str], str], level: str) -> None:
    option = script(f"HOME = {str(bench.home)!r}\n{LOOKS}")
    process = bench.start(
        "record", "--agent", "script", "--agent-option", option, "--benchmark", "notebook", "--task", "numbers",
        "--isolation", level,
    )  # fmt: skip
    said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    (episode,) = bench.rows("select answer from episodes")
    found = json.loads(episode["answer"])
    assert found["own"]
    assert found["tasks"] == []
    if os.geteuid() == 0:  # without privileges, these are left: see docs/security/attacks.md
        assert not any(str(bench.home) in path or "run_" in path for path in found["outputs"])
        assert found["watched"] == []
