"""The choice of an isolation level: what is stored and printed, and when recording is refused."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

from mcp_bench.bridge.episode.attempt import Setup
from mcp_bench.bridge.isolation.landlock import Landlock
from mcp_bench.bridge.isolation.level import Access, Confinement, rules
from mcp_bench.bridge.isolation.levels import BY_NAME
from mcp_bench.bridge.run.isolation_choice import IsolationError, check_level, isolated
from mcp_bench.plugins.own_clients.noop import Noop
from mcp_bench.recorder.isolation_levels import SEALING
from mcp_bench.servers.codeworld import BENCHMARK as CODEWORLD
from mcp_bench.servers.saasworld import BENCHMARK
from tests.support.levels import each_level
from tests.support.requirements import needs

pytestmark = pytest.mark.system

NOOP = ("record", "--agent", "noop", "--benchmark", "notebook", "--limit", "1")
HERE = [name for name in SEALING if BY_NAME[name].support().works]
needs_landlock = needs("landlock", "landlock" in HERE, "the kernel does not offer it")


def test_auto_is_the_strongest_that_works(bench) -> None:
    done = bench.run(*NOOP, "--isolation", "auto")
    (episode,) = bench.rows("select isolation, probes from episodes")
    (run,) = bench.rows("select isolation from runs")
    assert episode["isolation"] == run["isolation"] == (HERE[-1] if HERE else "none")
    if HERE:
        probes = json.loads(episode["probes"])
        assert {"home", "sealed", "environ", "neighbour_socket", "runs"} <= set(probes)
        assert f"Isolation: {HERE[-1]}, {len(probes)} probes passed" in done.stderr
        (row,) = bench.report()
        assert row["isolation"] == HERE[-1]
        (id_,) = bench.rows("select id from episodes")
        shown = bench.run("show", id_["id"]).stdout
        assert f"{HERE[-1]}, {len(probes)} probes passed" in shown
        assert json.loads(bench.run("show", id_["id"], "--json").stdout)["probes"] == probes


def test_a_level_weaker_than_required_records_nothing(bench) -> None:
    done = bench.run(*NOOP, "--isolation", "none", "--require-isolation", "landlock", code=1)
    assert "--require-isolation landlock: the level is none" in done.stderr
    assert not list((bench.home / "runs").glob("run_*"))


@needs_landlock
def test_a_stronger_level_meets_the_requirement(bench) -> None:
    bench.run(*NOOP, "--isolation", "auto", "--require-isolation", "landlock")
    assert bench.report()[0]["isolation"] == HERE[-1]


def test_a_missing_bwrap_says_how_to_install_it(bench, tmp_path: Path) -> None:
    bench.environ["PATH"] = str(tmp_path)
    done = bench.run(*NOOP, "--isolation", "bwrap", code=1)
    assert "bwrap is not on PATH; install the package bubblewrap" in done.stderr
    assert not list((bench.home / "runs").glob("run_*"))


@pytest.mark.parametrize("wanted", ["auto", "bwrap"])
def test_an_agent_in_a_sandbox_needs_bwrap(wanted: str, tmp_path: Path, monkeypatch) -> None:
    """Worlds may have podman or docker there."""
    agent = Noop()
    setup = Setup(CODEWORLD, agent, agent.find({}), 60.0, tools="all")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(IsolationError) as caught:
        isolated(setup, wanted)
    assert str(caught.value).startswith("isolation level bwrap does not work here: bwrap is not on PATH")
    assert str(caught.value).endswith("has no other level: leave out --tools all")


@pytest.mark.skipif(os.geteuid() == 0, reason="this is root")
def test_another_user_needs_root(bench) -> None:
    done = bench.run(*NOOP, "--isolation", "uid", code=1)
    assert "only root can start an agent as another user" in done.stderr


def test_a_native_home_excludes_isolation(bench) -> None:
    done = bench.run(*NOOP, "--home", "native", "--isolation", "landlock", code=2)
    assert "Leave out" in done.stderr


def test_unknown_levels_are_refused(bench) -> None:
    assert "landlok" in bench.run(*NOOP, "--isolation", "landlok", code=2).stderr


@each_level()
def test_a_resumed_run_keeps_its_level(bench, level: str) -> None:
    bench.run(
        "record", "--agent", "script", "--agent-option", "file=/nowhere", "--benchmark", "notebook",
        "--limit", "1", "--isolation", level, code=1,
    )  # fmt: skip
    (first,) = bench.rows("select run, invalid, invalid_detail from episodes")
    assert first["invalid"] == "never_connected"
    assert f"Did {level} isolation block it?" in first["invalid_detail"]
    bench.run("record", "--resume", first["run"], code=1)
    assert [row["isolation"] for row in bench.rows("select isolation from episodes")] == [level] * 2


class Leaky(Landlock):
    """A sandbox with a hole."""

    def __init__(self, hole: str) -> None:
        self.hole = Path(hole)

    @contextmanager
    def confined(self, access: Access):
        with super().confined(access) as whole:
            read = (*map(Path, whole.rules["read"]), self.hole)
            yield Confinement(rules(read, map(Path, whole.rules["write"]), listed=()))


@needs_landlock
def test_a_level_with_a_hole_is_not_offered(monkeypatch, bench_home: Path) -> None:
    monkeypatch.setenv("MCP_BENCH_HOME", str(bench_home))
    agent = Noop()
    setup = Setup(BENCHMARK, agent, agent.find({}), 60.0)
    whole = check_level(setup, Landlock())
    assert whole.passed and str(whole) == f"{len(whole.probes)} probes passed"
    verdict = check_level(setup, Leaky("/"))
    assert set(verdict.failed) == {"home", "sealed", "benchmark", "checkout", "neighbour"}
    assert not verdict.passed
    assert not list(bench_home.rglob(".preflight-*")), "the decoys are gone"
