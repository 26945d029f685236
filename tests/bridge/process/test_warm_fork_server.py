"""Most tests' commands get a fork server that is a fork; whatever confines agents gets the real one."""

import os
import sys
from pathlib import Path

import pytest

from tests.support.processes.forked import REAL, run_module
from tests.support.processes.warm_fork_server import wanted

pytestmark = pytest.mark.component

SERVERS = """
import os, pathlib, socket
from mcp_bench.bridge.process.fork_server_process import ForkServer

def main():
    for _ in range(2):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            server = ForkServer.spawn(theirs, (".", "json"))
            status = pathlib.Path(f"/proc/{server.pid}/stat").read_text()
            print("child" if int(status.rpartition(")")[2].split()[1]) == os.getpid() else "other")
            print("forked" if "forked" in pathlib.Path(f"/proc/{server.pid}/cmdline").read_text() else "real")
            server.kill()
            print(server.wait())

main()
"""


@pytest.mark.skipif(REAL, reason="each command is an interpreter of its own")
def test_it_is_a_child_that_can_be_killed_and_replaced(tmp_path: Path) -> None:
    (tmp_path / "record_nothing.py").write_text(SERVERS)
    env = {"PATH": os.environ["PATH"], "MCP_BENCH_ISOLATION": "none", "PYTHONPATH": str(tmp_path)}
    done = run_module("record_nothing", ["record"], env=env, cwd=tmp_path)
    assert done.stdout.split() == ["child", "forked", "-9", "child", "real", "-9"], done.stderr


@pytest.mark.parametrize(
    ("words", "level", "expected"),
    [
        ("record --agent noop", "none", True),
        ("check-benchmark notebook", "none", True),
        ("record --agent noop", "landlock", False),
        ("record --agent noop", None, False),
        ("record --agent noop --isolation uid", "none", False),
        ("record --agent noop --isolation=uid", "none", False),
        ("report", "none", False),
    ],
)
def test_only_runs_with_unconfined_agents_have_it(
    monkeypatch: pytest.MonkeyPatch, words: str, level: str | None, expected: bool
) -> None:
    monkeypatch.delenv("MCP_BENCH_ISOLATION", raising=False)
    if level is not None:
        monkeypatch.setenv("MCP_BENCH_ISOLATION", level)
    monkeypatch.delenv("MCP_BENCH_TEST_PROCESSES", raising=False)
    assert wanted([sys.executable, *words.split()]) is expected


def test_a_test_can_ask_for_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_BENCH_ISOLATION", "none")
    monkeypatch.setenv("MCP_BENCH_TEST_PROCESSES", "real")
    assert not wanted([sys.executable, "record", "--agent", "noop"])
