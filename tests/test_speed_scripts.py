"""Scripts of `benchmarks/speed`: that they measure what they say, and refuse what they cannot measure before they begin."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.servers.saasworld import BENCHMARK
from tests.support import ROOT

pytestmark = pytest.mark.component


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that imports a script by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks" / "speed"))
    return importlib.import_module


@pytest.mark.anyio
async def test_the_call_of_many_sessions_finds_its_record(script: Any) -> None:
    sessions = script("many_sessions")
    call = sessions.task_call()
    result = await (await BENCHMARK.open(sessions.TASK)).call(call["name"], call["arguments"])
    assert not result.is_error
    assert len(json.loads(result.text)["items"]) == 1


def test_the_slowest_calls_are_none_that_are_refused(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    speed, refused = script("saasworld_speed"), dict[str, bool]()

    def timed(call: Any) -> float:
        refused[call.args[1]] = call().is_error
        return 1.0

    monkeypatch.setattr(speed, "LARGE", 20)
    monkeypatch.setattr(speed, "timed", timed)
    speed.slowest_calls()
    assert {"calendar_events_busy", "crm_contacts_list", "crm_contacts_search"} <= refused.keys()
    assert not any(refused.values()), refused
    assert f"slowest of {len(refused)} calls" in capsys.readouterr().out


def test_the_table_begins_with_a_store_only(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = script("scale_table")
    monkeypatch.setattr(table, "calls", lambda rounds: pytest.fail("it measures before it refuses"))
    monkeypatch.setattr("sys.argv", ["scale_table.py", "--no-peers", "--store", str(tmp_path / "none")])
    with pytest.raises(SystemExit):
        table.main()
    assert f"there is no store in {tmp_path / 'none'}" in capsys.readouterr().err


def test_a_store_is_there_once_it_is_whole(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = script("synthetic_store")
    with monkeypatch.context() as patch:
        patch.setattr(store, "_write_episode", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            store.main(tmp_path, 1 / store.TASKS, 1)
    assert not (tmp_path / "runs").exists()
    store.main(tmp_path, 1 / store.TASKS, 1)
    assert len(list((tmp_path / "runs").glob("run_*"))) == store.MODELS
    with pytest.raises(SystemExit, match="there are runs"):
        store.main(tmp_path, 1 / store.TASKS, 1)


def test_levels_are_compared_with_none_only(
    script: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sealing = script("sealing")

    def refused(level: str, home: Path) -> float:
        raise SystemExit(f"{level}: agentdojo is not installed")

    monkeypatch.setattr(sealing, "record", refused)
    monkeypatch.setattr("sys.argv", ["sealing.py"])
    with pytest.raises(SystemExit, match="nothing to compare with"):
        sealing.main()
    assert "skipped: none: agentdojo is not installed" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["sandbox", "store_figures", "synthetic_store", "viewer_scale"])
def test_help_does_nothing_else(name: str, tmp_path: Path) -> None:
    path = ROOT / "benchmarks" / "speed" / f"{name}.py"
    done = subprocess.run([sys.executable, path, "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, [])
    assert done.stdout.startswith("usage: ")
