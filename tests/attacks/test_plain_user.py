"""Unprivileged levels, with `mcp-bench` run by an ordinary user."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.agents import plain_user
from tests.support.attacks.arena import Arena
from tests.support.bench_commands import FIXTURES, Bench
from tests.support.levels import these_levels
from tests.support.requirements import needs, skip

NOBODY = 61990

pytestmark = [
    needs("root", os.geteuid() == 0, "only root can become another user; others are one"),
    pytest.mark.system,
]


@dataclass
class PlainBench(Bench):
    """Runs every command as another user."""

    forked = False

    def command(self, *args: str | Path) -> list[str]:
        return [sys.executable, plain_user.__file__, str(NOBODY), *super().command(*args)]


@pytest.fixture
def bench(bench_home: Path) -> PlainBench:
    os.chown(bench_home.parent, NOBODY, NOBODY)
    bench = PlainBench(bench_home)
    for place in (FIXTURES, Path(__file__)):
        if not all(above.stat().st_mode & 0o005 == 0o005 for above in place.parents):
            skip("root", f"{place} cannot be read by other users")
    done = bench.run("doctor", "--help", code=None)
    if done.returncode:
        skip("root", f"another user cannot run mcp-bench here: {done.stderr[-200:]}")
    return bench


@these_levels("landlock", "bwrap", full=("bwrap",))  # they need no privilege
def test_a_plain_user_can_record(bench: PlainBench, level: str) -> None:
    bench.run("record", "--agent", "oracle", "--benchmark", "notebook", "--isolation", level)
    assert bench.run_folder.stat().st_uid == NOBODY
    assert [grade["partial"] for grade in bench.grades()] == [1.0, 1.0]
    (row,) = bench.report()
    assert (row["isolation"], row["verified"], row["clean"]) == (level, 2, 2)


@pytest.mark.full
@these_levels("landlock", "bwrap")  # they need no privilege
def test_no_attack_succeeds_for_a_plain_user(bench: PlainBench, level: str) -> None:
    measured = Arena(bench, level).measure()
    assert [name for name, succeeded in measured.succeeded.items() if succeeded] == []
    assert measured.grades["victim"]["partial"] == measured.oracle["partial"] == 1.0
