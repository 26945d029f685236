"""Under each level: all processes of an agent end, SIGTERM comes first, and users are separate."""

import json
import os
import subprocess
from collections.abc import Callable

import pytest

from tests.support.levels import each_level
from tests.support.requirements import needs

pytestmark = pytest.mark.system


@each_level("none")
def test_daemons_do_not_outlive_the_episode(bench, script: Callable[[str], str], level: str) -> None:
    name = f"daemon-{os.urandom(4).hex()}"
    source = f"""
server = Server()
server.connect()
code = "import time; open('up', 'w').close(); time.sleep(600)"
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execv(sys.executable, [{name!r}, "-I", "-S", "-c", code])
    os._exit(0)
while not os.path.exists("up"):
    pass
print("done")
"""
    record(bench, script(source), level)
    (episode,) = bench.rows("select invalid, answer, termination from episodes")
    assert (episode["invalid"], episode["answer"], episode["termination"]) == (None, "done", "agent_exit")
    processes = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert name not in processes


@each_level("none")
def test_an_agent_gets_sigterm_before_sigkill(bench, script: Callable[[str], str], level: str) -> None:
    source = """
import signal, time
def end(*_):
    print("asked")
    sys.exit(3)
signal.signal(signal.SIGTERM, end)
server = Server()
server.connect()
for number in range(4):  # one more than allowed
    server.call("write", key="one", value="x")
while True:
    time.sleep(0.1)  # a signal just before `pause` would be lost
"""
    record(bench, script(source), level)
    (episode,) = bench.rows("select termination, exit_code, answer from episodes")
    assert (episode["termination"], episode["exit_code"], episode["answer"]) == ("max_calls", 3, "asked")


@needs("root", os.geteuid() == 0, "only root can give an agent another user")
def test_parallel_episodes_have_separate_users(bench, script: Callable[[str], str]) -> None:
    source = """
Server().connect()
print(json.dumps([os.getuid(), os.getgid(), os.getgroups(), os.stat(os.environ["HOME"]).st_uid]))
"""
    record(bench, script(source), "uid", "--repeat", "2", "--jobs", "2")
    answers = [json.loads(row["answer"]) for row in bench.rows("select answer from episodes")]
    for uid, gid, groups, owner in answers:
        assert uid == gid == owner != 0 and groups == []


@each_level()
def test_no_capability_is_left(bench, script: Callable[[str], str], level: str) -> None:
    source = """
Server().connect()
lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({name: lines[name].strip() for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "NoNewPrivs")}))
"""
    record(bench, script(source), level)
    (episode,) = bench.rows("select answer from episodes")
    left = json.loads(episode["answer"])
    assert left.pop("NoNewPrivs") == "1"
    if os.geteuid() != 0:
        left.pop("CapBnd")  # has no effect without privileges
    assert set(left.values()) == {"0" * 16}


def record(bench, option: str, level: str, *more: str) -> None:
    bench.run(
        "record", "--agent", "script", "--agent-option", option, "--benchmark", "notebook",
        "--task", "numbers", "--isolation", level, *more,
    )  # fmt: skip
