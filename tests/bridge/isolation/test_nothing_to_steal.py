"""During an episode, its answers are in no file that the agent can open and no process that it can read."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from tests.support.levels import each_level

pytestmark = pytest.mark.system

WORDS = ["cerulean-sentinel", "viridian-sentinel", "expects-sky", "final-state-of-the-notebook"]
"""The task's answers and what is sealed with its grade. The agent below gets them reversed."""

SEARCHES = """
server = Server(); server.connect(); server.call("read", key="sky")
WORDS = [word[::-1].encode() for word in @WORDS@]
found, opened = [], []

def search(path):
    try:
        with open(path, "rb") as file:
            opened.append(path)
            data = file.read(1 << 24)
    except OSError:
        return
    found.extend(path for word in WORDS if word in data)

bait = os.path.join(os.environ["TMPDIR"], "bait")
open(bait, "wb").write(WORDS[0])
own = os.path.dirname(os.environ["HOME"])
for top in ("/tmp", "/var/tmp", "/run", "/dev/shm", "/home", "/root", @HOME@, own):
    for folder, folders, files in os.walk(top):
        folders[:] = [name for name in folders if name not in ("site-packages", "node_modules", "versions")]
        for name in files:
            path = os.path.join(folder, name)
            try:
                if os.stat(path).st_ctime >= @SINCE@ and os.path.isfile(path):
                    search(path)
            except OSError:
                pass
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("cmdline", "environ"):
        search(f"/proc/{pid}/{name}")
    try:
        files = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        continue
    for name in files:
        if os.path.isfile(f"/proc/{pid}/fd/{name}"):
            search(f"/proc/{pid}/fd/{name}")
token = os.path.join(own, "mcp", "token")
print(json.dumps({"found": sorted(set(found) - {bait}), "bait": bait in found, "token": token in opened}))
"""


@each_level()
def test_no_answer_is_in_a_file_that_an_agent_can_open(
    bench, script: Callable[[str], str], level: str
) -> None:
    import time

    source = SEARCHES.replace("@WORDS@", repr([word[::-1] for word in WORDS]))
    source = source.replace("@HOME@", repr(str(bench.home))).replace("@SINCE@", str(time.time() - 60))
    bench.run(
        "record", "--agent", "script", "--agent-option", script(source), "--benchmark", "notebook",
        "--task", "colours", "--repeat", "2", "--jobs", "2", "--isolation", level,
    )  # fmt: skip
    episodes = bench.rows("select answer from episodes")
    assert [json.loads(row["answer"]) for row in episodes] == [{"found": [], "bait": True, "token": True}] * 2
    sealed = (bench.run_folder / "grades.db").read_bytes()
    assert all(word.encode() in sealed for word in WORDS)
