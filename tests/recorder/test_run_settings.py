"""The settings of a run: what is written is what was set, and what a later version added stays."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mcp_bench.recorder.records import RunInfo
from mcp_bench.recorder.run_settings import CellOfRun, RunSettings, ScoreSettings, StoredHarness, StoredRole
from mcp_bench.recorder.scores.conditions import differing_conditions
from tests.support.recorded import run_info

pytestmark = pytest.mark.unit

HARNESS = {"name": "calm", "version": "0123", "files": {"INSTRUCTIONS.md": "Be calm."}, "later": 1}
STORED: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a proxy's": {"server": ["cat"], "durability": "full"},
    "no limits": {"timeout": 900.0, "max_calls": None, "max_cost": None, "base_url": None, "options": {}},
    "limits": {"agent_limits": {"memory": 4096}, "role_limits": {"requests": 5, "tokens": 9, "cost": None}},
    "roles": {"role_models": {"user": {"model": "u", "base_url": "http://h/v1"}}, "later": {"a": [1, None]}},
    "a harness": {"harness": HARNESS, "options": {"effort": "high"}},
    "a cell": {"matrix": {"name": "m", "cell": "c", "digest": "d", "values": {"limit": 3, "split": None}}},
}


@pytest.mark.parametrize("stored", STORED.values(), ids=STORED)
def test_settings_are_written_as_they_were_read(stored: dict[str, Any]) -> None:
    """Also within a run, as it is sent to a process that records a part of it."""
    info = RunInfo.model_validate_json(run_info(settings=stored).model_dump_json())
    assert json.loads(json.dumps(info.settings.model_dump())) == info.model_dump()["settings"] == stored


def test_the_settings_that_scores_depend_on() -> None:
    """In words, and by name, where a name of a model may be any text."""
    options = {"x": "1", "command": "a b=c --c=d, e"}
    user = StoredRole(model="m, n 2", base_url="http://127.0.0.1:1/v1")
    harness = StoredHarness(name="calm", version="0123", files={})
    found = ScoreSettings.of(
        RunSettings(
            timeout=900, max_calls=5, retries=2, base_url="http://127.0.0.1:2/v1", options=options,
            role_models={"user": user}, harness=harness,
        )
    )  # fmt: skip
    assert found == (
        "timeout 900, max_calls 5, retries 2, user m, n 2, harness calm@0123, "
        "options 'command=a b=c --c=d, e' x=1"
    )
    assert found.values == {
        "timeout": "900", "max_calls": "5", "retries": "2", "user": "m, n 2", "harness": "calm@0123", **options,
    }  # fmt: skip
    assert found.words == {
        "timeout": "timeout 900", "max_calls": "max_calls 5", "retries": "retries 2", "user": "user m, n 2",
        "harness": "harness calm@0123", "command": "command=a b=c --c=d, e", "x": "x=1",
    }  # fmt: skip
    assert ScoreSettings.of(RunSettings()) == ""
    assert differing_conditions([]) == []


def test_a_matrix_may_compare_endpoints() -> None:
    cell = CellOfRun(name="m", cell="c", digest="d", values={})
    rows = [
        {"harness": ScoreSettings.of(RunSettings(base_url=f"http://127.0.0.1:{port}/v1", matrix=cell))}
        for port in (1, 2)
    ]
    assert differing_conditions(rows) == [f"endpoint http://127.0.0.1:{port}/v1" for port in (1, 2)]
