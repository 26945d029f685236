"""A full process table is waited for, and ends neither a run nor an episode that can start later."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.bench_commands import FIXTURES

pytestmark = pytest.mark.system

# stands in for a full process table: the first {failures} starts of `{kind}` fail
NO_ROOM = """
import errno, os, subprocess
real = subprocess.Popen.__init__

def start(self, args, *more, **named):
    if any("{kind}" in str(word) for word in args):
        with open({counter!r}, "a+") as counter:
            counter.write("x"); counter.flush()
            if counter.tell() <= {failures}:
                raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
    real(self, args, *more, **named)

subprocess.Popen.__init__ = start
{more}
"""
NOTEBOOK = ("--benchmark", "notebook", "--task", "colours", "--json")
AGENT = "server = Server(); server.connect()"


@pytest.fixture
def crowded(bench, tmp_path: Path) -> Callable[..., Path]:
    def patch(kind: str, failures: int, more: str = "") -> Path:
        counter = tmp_path / "counter"
        source = NO_ROOM.format(kind=kind, failures=failures, counter=str(counter), more=more)
        (tmp_path / "sitecustomize.py").write_text(source)
        bench.environ["PYTHONPATH"] = f"{tmp_path}:{FIXTURES}"
        return counter

    return patch


def test_a_failed_fork_is_tried_again(bench, crowded, script) -> None:
    counter = crowded("supervisor.py", 2)
    done = bench.run("record", "--agent", "script", "--agent-option", script(AGENT), *NOTEBOOK)
    summary = json.loads(done.stdout)
    assert (summary["graded"], summary["invalid"], summary["retried"]) == (1, 0, 0), done.stderr
    assert len(counter.read_text()) == 3


def test_a_failed_fork_server_is_not_needed(bench, crowded) -> None:
    counter = crowded("fork_server.py", 1)
    done = bench.run("record", "--agent", "noop", *NOTEBOOK)
    assert json.loads(done.stdout)["graded"] == 1
    assert counter.read_text() == "x"


def test_no_room_for_long_is_retried_and_named(bench, crowded, script) -> None:
    crowded("supervisor.py", 1000, "import mcp_bench.bridge.process.agent as agent; agent.ROOM_SECONDS = 0.2")
    record = ("record", "--agent", "script", "--agent-option", script(AGENT), *NOTEBOOK)
    done = bench.run(*record, "--retries", "1", "--retry-wait", "0", code=1)
    assert json.loads(done.stdout)["invalid"] == 1
    rows = bench.rows("select attempt, invalid, invalid_detail from episodes order by attempt")
    assert [(row["attempt"], row["invalid"]) for row in rows] == [(1, "launch_failed"), (2, "launch_failed")]
    assert "no room for a process" in rows[0]["invalid_detail"] and "--jobs" in rows[0]["invalid_detail"]
    assert "mcp-bench record --resume" in done.stderr
