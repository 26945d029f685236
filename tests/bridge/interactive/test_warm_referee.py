"""A forked command's referee is a fork, too, outside the command's process tree."""

import sys
from pathlib import Path

import pytest

from tests.bridge.interactive.conftest import referee_pid, wait_until_ended
from tests.support.processes.forked import REAL
from tests.support.processes.warm_referee import ROOT, wanted

pytestmark = pytest.mark.component


@pytest.mark.skipif(REAL, reason="each command is an interpreter of its own")
def test_it_goes_on_after_its_command_and_ends_in_order(bench) -> None:
    bench.run("up")
    own = Path("/proc", str(referee_pid(bench.home)))
    assert b"forked" in (own / "cmdline").read_bytes()
    assert (own / "cwd").readlink() == Path("/")
    assert {(own / "fd" / stream).readlink().name for stream in "12"} == {"log"}
    bench.run("down")
    wait_until_ended(bench.home)


@pytest.mark.parametrize(
    ("words", "expected"),
    [("up", True), ("connect notebook", True), ("down", False), ("", False), ("record --note up", False)],
)
def test_only_commands_that_start_one_have_it(
    monkeypatch: pytest.MonkeyPatch, words: str, expected: bool
) -> None:
    monkeypatch.delenv("MCP_BENCH_TEST_PROCESSES", raising=False)
    assert wanted([ROOT, *words.split()]) is expected
    assert not wanted([sys.executable, *words.split()])


def test_a_test_can_ask_for_the_real_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MCP_BENCH_TEST_PROCESSES", "real")
    assert not wanted([ROOT, "up"])
