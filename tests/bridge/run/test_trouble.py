"""Failures on the referee's side: buggy benchmarks, unusable folders, floods, odd endings."""

import json
import os
import sqlite3
import subprocess
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from mcp_bench.bridge.tap.traffic import IN_FLIGHT_SECONDS

pytestmark = pytest.mark.system

Write = Callable[[str], str]

BUGGY = """
import os
from mcp_bench_fixtures import Notebook, NotebookWorld

class BuggyWorld(NotebookWorld):
    def tools(self):
        bug("tools")
        return super().tools()

    async def close(self):
        bug("close")

class Buggy(Notebook):
    name = "buggy"

    async def open(self, task_id, *, seed=0):
        bug("open")
        return BuggyWorld(self.WANTED[task_id])

    def reference(self, task_id):
        bug("reference")
        return super().reference(task_id)

def bug(place):
    if os.environ["BUG"] == place:
        raise ValueError(f"bug in {place}")

BUGGY = Buggy()
"""


@pytest.fixture
def buggy(bench, tmp_path: Path) -> None:
    """Install a benchmark with a bug in the function that the variable BUG names."""
    package = tmp_path / "package"
    (package / "buggy-1.dist-info").mkdir(parents=True)
    (package / "buggy.py").write_text(BUGGY)
    (package / "buggy-1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: buggy\nVersion: 1\n"
    )
    (package / "buggy-1.dist-info" / "entry_points.txt").write_text(
        "[mcp_bench.benchmarks]\nbuggy = buggy:BUGGY\n"
    )
    bench.environ["PYTHONPATH"] = f"{package}{os.pathsep}{bench.environment()['PYTHONPATH']}"


@pytest.mark.usefixtures("buggy")
@pytest.mark.parametrize("place", ["open", "tools", "reference"])
def test_a_benchmark_bug_invalidates_the_episode_only(bench, place: str) -> None:
    bench.environ["BUG"] = place
    done = bench.run("record", "--agent", "oracle", "--benchmark", "buggy", code=1)
    assert "Traceback" not in done.stderr
    rows = bench.rows("select invalid, invalid_detail from episodes")
    assert rows == [{"invalid": "world_failed", "invalid_detail": f"ValueError: bug in {place}"}] * 2


@pytest.mark.usefixtures("buggy")
def test_a_world_that_fails_to_close_keeps_its_grade(bench) -> None:
    bench.environ["BUG"] = "close"
    done = bench.run("record", "--agent", "oracle", "--benchmark", "buggy")
    assert "bug in close" in done.stderr
    assert [grade["strict"] for grade in bench.grades()] == [1, 1]


def test_a_too_long_tmpdir_is_a_clear_error(bench, tmp_path: Path) -> None:
    deep = tmp_path / ("deep" * 30)
    deep.mkdir()
    bench.environ["TMPDIR"] = str(deep)
    done = bench.run("record", "--agent", "noop", "--benchmark", "notebook", code=1)
    assert "Traceback" not in done.stderr
    assert "Set TMPDIR to a shorter one" in done.stderr
    assert list(deep.iterdir()) == []
    assert not (bench.home / "runs").exists()


def test_another_benchmark_version_cannot_be_resumed(bench) -> None:
    bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--limit", "1")
    with closing(sqlite3.connect(bench.run_folder / "recordings.db")) as db, db:
        db.execute("update runs set benchmark_version = '0.9'")
    done = bench.run("record", "--resume", bench.run_folder.name, code=2)
    assert "version 0.9" in done.stderr


def record(bench, option: str) -> None:
    bench.run(
        "record",
        "--agent",
        "script",
        "--benchmark",
        "notebook",
        "--task",
        "colours",
        "--agent-option",
        option,
    )


def test_an_agent_cannot_exhaust_the_referees_descriptors(bench, script: Write) -> None:
    flood = """
import socket
server = Server(); server.connect()
path = os.path.join(os.path.dirname(CONFIG["command"][-1]), "socket")
for _ in range(3):                        # each process has its own descriptors
    done, full = os.pipe()
    if os.fork() == 0:
        wires = [socket.socket(socket.AF_UNIX) for _ in range(200)]
        for wire in wires:
            wire.connect(path)
        os.write(full, b"x")
        import time; time.sleep(600)
    os.read(done, 1)
for _ in range(600):                      # meanwhile the referee accepts them
    server.ask("ping")
print(server.call("write", key="sky", value="cerulean-sentinel")["result"]["isError"])
"""
    command = bench.command(
        "record", "--agent", "script", "--benchmark", "notebook", "--limit", "1",
        "--agent-option", script(flood),
    )  # fmt: skip
    few = ["sh", "-c", 'ulimit -n 256 && exec "$@"', "sh", *command]
    done = subprocess.run(few, env=bench.environment(), capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert bench.rows("select answer from episodes") == [{"answer": "False"}]
    assert bench.grades()[0]["partial"] == 0.5


# The agent makes a call that runs until `gate` is closed.
WAITS = """
gate = os.path.join(os.environ["HOME"], "gate")
os.mkfifo(gate)
server = Server(); server.connect()
call = {"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": {"name": "wait", "arguments": {"path": gate}}}
server.send(json.dumps(call).encode())
gate = os.open(gate, os.O_WRONLY)          # returns once the call reads
"""


def ran_into_the_bound(bench) -> bool:
    """Return whether the episode ended only after the wire's time limit for running calls."""
    (row,) = bench.rows("select (ended_us - started_us) / 1e6 as seconds from episodes")
    return bool(row["seconds"] > IN_FLIGHT_SECONDS)


def test_a_cancelled_call_does_not_delay_the_end(bench, script: Write) -> None:
    gives_up = """
server.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}')
server.ask("ping")
os.close(gate)
"""
    record(bench, script(WAITS + gives_up))
    assert bench.rows("select outcome from calls") == [{"outcome": "cancelled"}]
    assert not ran_into_the_bound(bench)


def test_a_client_that_ends_its_input_early_gets_every_answer(bench, script: Write) -> None:
    piped = """
hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
lines = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    *({"jsonrpc": "2.0", "id": number, "method": "tools/list"} for number in range(2, 12)),
]
text = "".join(json.dumps(line) + "\\n" for line in lines)
done = subprocess.run(CONFIG["command"], input=text, capture_output=True, text=True)
print(sorted(json.loads(line)["id"] for line in done.stdout.splitlines()))
"""
    record(bench, script(piped))
    assert json.loads(bench.rows("select answer from episodes")[0]["answer"]) == list(range(1, 12))
