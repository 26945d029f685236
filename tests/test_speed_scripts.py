"""Scripts of `benchmarks/speed`: that they measure what they say, and refuse what they cannot measure before they begin."""

from __future__ import annotations

import importlib
import json
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


def test_the_table_begins_with_a_store_only(
    script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    table = script("scale_table")
    monkeypatch.setattr(table, "calls", lambda rounds: pytest.fail("it measures before it refuses"))
    monkeypatch.setattr("sys.argv", ["scale_table.py", "--no-peers", "--store", str(tmp_path / "none")])
    with pytest.raises(SystemExit):
        table.main()
    assert f"there is no store in {tmp_path / 'none'}" in capsys.readouterr().err
