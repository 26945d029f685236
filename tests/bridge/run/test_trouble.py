"""Failures on the referee's side: buggy benchmarks, unusable folders, floods, odd endings."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from mcp_bench.bridge.tap.traffic import IN_FLIGHT_SECONDS
from tests.support.bench_commands import FIXTURES

pytestmark = pytest.mark.system

Write = Callable[[str], str]

BUGGY = f"""
import asyncio, os, sys
sys.path.insert(0, {str(FIXTURES)!r})  # a worker does not inherit the path
"""
BUGGY += """
from mcp_bench.servers.errors import SandboxLostError
from mcp_bench.servers.remote import RemoteBenchmark
from mcp_bench_fixtures import Notebook, NotebookWorld, tool

class BuggyWorld(NotebookWorld):
    def __init__(self, task_id):
        super().__init__(Buggy.WANTED[task_id])
        self.task = task_id

    def tools(self):
        bug("tools", self.task)
        if os.environ.get("BUG") == "schema" and self.task == os.environ.get("ONLY"):
            return [tool("write", key={"type": "no such type"})]
        return super().tools()

    async def call(self, name, arguments):
        bug("call", self.task)
        return await super().call(name, arguments)

    async def grade(self, answer):
        bug("grade", self.task)
        if here("lost sandbox", self.task):
            raise SandboxLostError("the runner box: the connection ended")
        if here("late grade", self.task):
            raise TimeoutError("the service did not answer")
        return None if here("no grade", self.task) else await super().grade(answer)

    async def snapshot(self):
        bug("snapshot", self.task)
        return {1, 2} if here("odd snapshot", self.task) else await super().snapshot()

    async def close(self):
        bug("close", self.task)

class Buggy(Notebook):
    name = "buggy"

    def tasks(self, split=None, limit=None):
        bug("tasks", "all")
        yield from super().tasks(split, limit)
        if here("twice", "-"):
            yield from super().tasks(split, limit)

    def task(self, task_id):
        bug("task", task_id)
        return super().task(task_id).model_copy(update={"benchmark": self.name})

    async def open(self, task_id, *, seed=0):
        bug("open", task_id)
        return BuggyWorld(task_id)

    def reference(self, task_id):
        bug("reference", task_id)
        return super().reference(task_id)

def here(place, task):
    return os.environ["BUG"] == place and task in os.environ.get("ONLY", task)

def bug(place, task):
    if os.environ["BUG"] == "print":
        print(place, task)
    if here(place, task):
        if "EXIT" in os.environ:
            raise SystemExit(f"bug in {place}")
        if "LOSE" in os.environ:  # as if it awaited a task of its own that it had cancelled
            raise asyncio.CancelledError(f"bug in {place}")
        raise ValueError(f"bug in {place}")
    if "HOME" in os.environ and os.path.exists(fatal := os.path.join(os.environ["HOME"], "fatal")):
        if open(fatal).read() == f"{place} {task}":
            os._exit(7)

os.environ.setdefault("BUG", "")  # a worker does not inherit it
BUGGY = Buggy()
WORKER = Buggy()
WORKER.name = "worked"
WORKED = RemoteBenchmark("worked", f"{__file__}:WORKER", version="1")
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
        "[mcp_bench.benchmarks]\nbuggy = buggy:BUGGY\nworked = buggy:WORKED\n"
    )
    bench.environ["PYTHONPATH"] = f"{package}{os.pathsep}{bench.environment()['PYTHONPATH']}"


def outcomes(bench) -> dict[str, str | None]:
    """Return by task what made it invalid; None if it has a grade."""
    rows = bench.rows("select id, task, invalid, invalid_detail from episodes")
    graded = {grade["episode"] for grade in bench.grades()}
    assert all((row["id"] in graded) == (row["invalid"] is None) for row in rows)
    return {row["task"]: row["invalid"] and f"{row['invalid']}: {row['invalid_detail']}" for row in rows}


@pytest.mark.usefixtures("buggy")
@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("task", "world_failed: ValueError: bug in task"),
        ("open", "world_failed: ValueError: bug in open"),
        ("tools", "world_failed: ValueError: bug in tools"),
        ("schema", "world_failed: "),
        ("reference", "world_failed: ValueError: bug in reference"),
        ("grade", "grader_failed: ValueError: bug in grade"),
        ("lost sandbox", "world_failed: the runner box: the connection ended"),
        ("late grade", "grader_failed: TimeoutError: the service did not answer"),
        ("no grade", "grader_failed: TypeError: grade returned NoneType, not a Grade"),
        ("snapshot", "grader_failed: ValueError: bug in snapshot"),
        ("odd snapshot", "grader_failed: TypeError"),
    ],
)
def test_a_bug_in_one_task_leaves_the_others(bench, place: str, why: str) -> None:
    bench.environ |= {"BUG": place, "ONLY": "colours"}
    named = ("--task", "colours", "--task", "numbers")
    done = bench.run("record", "--agent", "oracle", "--benchmark", "buggy", *named, code=1)
    assert "Traceback" not in done.stderr
    found = outcomes(bench)
    assert found.keys() == {"colours", "numbers"}
    assert (found["colours"] or "").startswith(why) and found["numbers"] is None


@pytest.mark.usefixtures("buggy")
def test_what_a_benchmark_prints_is_in_no_output_for_programs(bench, tmp_path: Path) -> None:
    bench.environ["BUG"] = "print"
    asked = ("record", "--agent", "oracle", "--benchmark", "buggy", "--task", "colours", "--json")
    assert json.loads(bench.run(*asked, "--dry-run").stdout)["tasks"] == ["colours"]
    done = bench.run(*asked)
    assert json.loads(done.stdout)["strict"] == 1
    assert "open colours" in done.stderr and "grade colours" in done.stderr
    assert json.loads(bench.run("record", "--resume", json.loads(done.stdout)["run"], "--json").stdout)
    assert [one["status"] for one in json.loads(bench.run("regrade", "--json").stdout)] == ["same"]
    assert "colours" in bench.run("tasks", "buggy", "--ids").stdout.splitlines()[:1]
    matrix = tmp_path / "matrix.yaml"
    matrix.write_text("name: m\nrecord: {benchmark: buggy, limit: 1}\nagents: [{agent: oracle}]\n")
    assert json.loads(bench.run("record", "--config", matrix, "--dry-run", "--json").stdout)["cells"]
    assert json.loads(bench.run("record", "--config", matrix, "--json").stdout)["complete"]


@pytest.mark.usefixtures("buggy")
@pytest.mark.parametrize("place", ["task", "open", "grade"])
def test_a_benchmark_that_exits_does_not_end_the_run(bench, place: str) -> None:
    bench.environ |= {"BUG": place, "ONLY": "colours", "EXIT": "1"}
    named = ("--task", "colours", "--task", "numbers")
    bench.run("record", "--agent", "oracle", "--benchmark", "buggy", *named, code=1)
    found = outcomes(bench)
    assert f"SystemExit: bug in {place}" in (found["colours"] or "") and found["numbers"] is None


@pytest.mark.usefixtures("buggy")
@pytest.mark.parametrize("place", ["open", "grade", "snapshot"])
def test_a_benchmark_that_loses_a_task_of_its_own_does_not_end_the_run(bench, place: str) -> None:
    bench.environ |= {"BUG": place, "ONLY": "colours", "LOSE": "1"}
    bench.run("record", "--agent", "oracle", "--benchmark", "buggy", code=1)
    found = outcomes(bench)
    assert f"CancelledError: bug in {place}" in (found["colours"] or "") and found["numbers"] is None


@pytest.mark.usefixtures("buggy")
def test_a_list_that_fails_in_the_middle_is_no_end(bench) -> None:
    bench.environ |= {"BUG": "task", "ONLY": "numbers"}
    done = bench.run("record", "--agent", "oracle", "--benchmark", "buggy", code=1)
    assert "Traceback" not in done.stderr
    assert outcomes(bench) == {"colours": None, "default#2": "world_failed: ValueError: bug in task"}


@pytest.mark.usefixtures("buggy")
def test_a_bug_in_one_task_leaves_the_others_where_sandboxes_are_elsewhere(bench, tmp_path: Path) -> None:
    runners = tmp_path / "runners.yaml"
    runners.write_text('{runners: [{name: box, kind: container, command: ["env"]}]}')
    bench.environ |= {"BUG": "task", "ONLY": "colours", "MCP_BENCH_RUNNERS": str(runners)}
    named = ("--task", "colours", "--task", "numbers", "--jobs", "2")
    done = bench.run("record", "--agent", "oracle", "--benchmark", "buggy", *named, code=1)
    assert "Traceback" not in done.stderr
    assert outcomes(bench) == {"colours": "world_failed: ValueError: bug in task", "numbers": None}


@pytest.mark.usefixtures("buggy")
def test_a_task_that_is_listed_twice_is_named(bench) -> None:
    bench.environ |= {"BUG": "twice"}
    done = bench.run("record", "--agent", "oracle", "--benchmark", "buggy", code=1)
    assert "benchmark 'buggy' lists the task 'colours' more than once" in done.stderr
    assert not (bench.home / "runs").exists()


@pytest.mark.usefixtures("buggy")
def test_a_task_that_is_mended_can_be_resumed(bench) -> None:
    bench.environ |= {"BUG": "task", "ONLY": "numbers"}
    bench.run("record", "--agent", "oracle", "--benchmark", "buggy", "--task", "numbers", code=1)
    bench.environ["BUG"] = ""
    bench.run("record", "--resume", bench.run_folder.name)
    rows = bench.rows("select invalid, prompt from episodes order by id")
    assert [row["invalid"] for row in rows] == ["world_failed", None]
    assert [row["prompt"] for row in rows] == ["", "Fill the page of numbers."]


@pytest.mark.usefixtures("buggy")
@pytest.mark.parametrize("place", ["task", "open", "call", "grade"])
def test_a_worker_that_dies_leaves_the_other_tasks(bench, place: str) -> None:
    (bench.home.parent / "fatal").write_text(f"{place} colours")
    named = ("--task", "colours", "--task", "numbers")
    bench.run("record", "--agent", "oracle", "--benchmark", "worked", *named, code=1)
    found = outcomes(bench)
    assert "world_failed: the worker process of benchmark 'worked' ended" in (found["colours"] or "")
    assert found["numbers"] is None


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
    bench.environ["NOTEBOOK_VERSION"] = "0.9"
    bench.run("record", "--agent", "noop", "--benchmark", "notebook", "--limit", "1")
    del bench.environ["NOTEBOOK_VERSION"]
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


def test_a_folder_that_cannot_be_made_is_tried_again(bench, script: Write, tmp_path: Path) -> None:
    """The first agent takes away where folders are made, its own too: the run goes on, as with a full disk."""
    place = tmp_path / "t"
    place.mkdir()
    bench.environ["TMPDIR"] = str(place)
    takes_away = f"""
server = Server(); server.connect()
server.call("write", key="sky", value="cerulean-sentinel")
if not CONFIG["repeat"]:
    os.rename({str(place)!r}, {str(place) + "-gone"!r})
"""
    done = bench.run(
        "record", "--agent", "script", "--benchmark", "notebook", "--task", "colours", "--repeat", "2",
        "--retries", "1", "--retry-wait", "0", "--agent-option", script(takes_away), code=1,
    )  # fmt: skip
    rows = bench.rows("select repeat, attempt, invalid, invalid_detail from episodes order by id")
    assert [(row["repeat"], row["attempt"], row["invalid"]) for row in rows] == [
        (0, 1, None), (1, 1, "launch_failed"), (1, 2, "launch_failed"),
    ]  # fmt: skip
    assert "cannot create the folder of an episode" in rows[1]["invalid_detail"]
    assert "retry the invalid episodes" in done.stderr
