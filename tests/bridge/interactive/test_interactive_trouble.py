"""Interactive use when a benchmark's code fails, or a client gives up."""

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.bench_commands import FIXTURES

pytestmark = pytest.mark.system

ODD = f"""
import asyncio, os, sys
sys.path.insert(0, {str(FIXTURES)!r})
from mcp_bench_fixtures import Notebook, written_to

class Broken(Notebook):
    name = "broken"

    def tasks(self, split=None, limit=None):
        if "MCP_BENCH_EXITS" in os.environ:
            sys.exit("bye")
        raise KeyError("a bug in the list")

class Holed(Notebook):
    name = "holed"

    def tasks(self, split=None, limit=None):
        return map(self.made, ["lost", "colours", "lost", "numbers", "lost"])

    def made(self, task_id):
        if task_id == "lost":
            raise KeyError("row 7")
        return self.task(task_id)

class Slow(Notebook):
    name = "slow"

    async def open(self, task_id, *, seed=0):
        await written_to(os.environ["PIPE"])
        return await super().open(task_id)

class Gone(Notebook):
    name = "gone"

    async def open(self, task_id, *, seed=0):
        if task_id == "numbers":  # as if it awaited a task of its own that it had cancelled
            raise asyncio.CancelledError("lost")
        raise SystemExit("bye")

BROKEN, GONE, HOLED, SLOW = Broken(), Gone(), Holed(), Slow()
"""


@pytest.fixture
def odd(bench, tmp_path: Path) -> None:
    """Install `broken`, which cannot list its tasks, `holed`, which cannot make some of them, and others.

    The worlds of `slow` open when PIPE is written to, and `gone` exits in place of opening one.
    """
    package = tmp_path / "package"
    about = package / "odd-1.dist-info"
    about.mkdir(parents=True)
    (package / "odd.py").write_text(ODD)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    (about / "entry_points.txt").write_text(
        "[mcp_bench.benchmarks]\n"
        + "".join(f"{name} = odd:{name.upper()}\n" for name in ("broken", "gone", "holed", "slow"))
    )
    bench.environ["PYTHONPATH"] = f"{package}{os.pathsep}{bench.environment()['PYTHONPATH']}"


@pytest.mark.usefixtures("odd")
@pytest.mark.parametrize("why", ["KeyError: 'a bug in the list'", "SystemExit: bye"])
def test_a_broken_benchmark_leaves_the_other_clients(bench, lines, why: str) -> None:
    bench.environ |= {"MCP_BENCH_EXITS": "1"} if "Exit" in why else {}
    with lines("connect", "notebook") as server:
        server.call("next_task")
        refused = bench.run("connect", "broken", code=1)
        assert f"benchmark 'broken' cannot list its tasks: {why}" in refused.stderr
        assert "Traceback" not in refused.stderr
        assert server.call("write", key="sky", value="cerulean-sentinel") == ("written", False)
        server.end()
    assert "Traceback" not in bench.run("serve", "broken", code=1).stderr
    bench.run("down")
    assert [grade["partial"] for grade in bench.grades()] == [0.5]


@pytest.mark.usefixtures("odd")
def test_a_benchmark_that_exits_leaves_the_other_clients(bench, lines) -> None:
    with lines("connect", "notebook") as server, lines("connect", "gone") as other:
        server.call("next_task")
        for _ in range(2):
            answer = other.call("next_task")
            assert answer == ("The task cannot be opened. Call next_task for another one.", True)
        assert server.call("write", key="sky", value="cerulean-sentinel") == ("written", False)
        server.end()
        other.end()
    bench.run("down")
    found = {row["benchmark"]: (row["episodes"], row["invalid"], row["partial"]) for row in bench.report()}
    assert found == {"gone": (2, 2, None), "notebook": (1, 0, 0.5)}


@pytest.mark.usefixtures("odd")
def test_tasks_that_cannot_be_made_are_left_out(bench, lines) -> None:
    with lines("serve", "holed") as server:
        given = [server.call("next_task") for _ in range(3)]
        errors = server.end()
    assert given == [
        ("Fill the page of colours.", False),
        ("Fill the page of numbers.", False),
        ("There are no more tasks.", True),
    ]
    assert errors.count("is left out: KeyError: 'row 7'") == 3


def test_a_task_that_needs_a_sandbox_says_so_in_the_recording(bench, lines) -> None:
    with lines("serve", "codeworld", "--limit", "1") as server:
        assert server.call("next_task") == (
            "The task cannot be opened. Call next_task for another one.",
            True,
        )
        server.end()
    (episode,) = bench.rows("select invalid, invalid_detail from episodes")
    assert episode["invalid"] == "world_failed"
    assert episode["invalid_detail"].startswith("the task needs a sandbox. Interactive use has none")


@pytest.mark.usefixtures("odd")
def test_a_task_whose_request_is_cancelled_comes_again(bench, lines, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    bench.environ["PIPE"] = str(pipe)
    with lines("serve", "slow") as server:
        server.send(server.tool("next_task"))
        with pipe.open("w"):  # opens once the world waits
            cancelled = {"requestId": server.last, "reason": "too slow"}
            server.send({"method": "notifications/cancelled", "params": cancelled}, server.request("ping"))
            assert server.receive()["id"] == server.last
        server.send(server.tool("next_task"))
        with pipe.open("w") as writer:
            writer.write("open")
        answer = server.receive()
        assert answer["result"]["content"][0]["text"] == "Fill the page of colours."
        server.end()
    (episode,) = bench.rows("select task, repeat from episodes")
    assert episode == {"task": "colours", "repeat": 0}


def test_standard_input_may_be_empty(bench) -> None:
    done = subprocess.run(
        bench.warm_command("serve", "notebook"), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE, env=bench.environment(), text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
