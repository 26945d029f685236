"""Budgets: what finished phases used, and what ends an improvement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder, cells
from mcp_bench.trainer.improve.recordings import BudgetSpentError, Recordings
from mcp_bench.trainer.improve.settings import Budget, ImproveSettings

pytestmark = pytest.mark.component


def recordings(tmp_path: Path, **budget: Any) -> Recordings:
    """Return those of an improvement that used 5 episodes, 700 tokens, 2 dollars and an hour."""
    for place, spent in (
        ("h0-w0/train-0.json", {"episodes": 4, "tokens": 500, "usd": 1.5, "seconds": 3000}),
        ("generation-1/proposal.json", {"episodes": 1, "tokens": 200, "usd": 0.5, "seconds": 600}),
    ):
        path = tmp_path / place
        path.parent.mkdir()
        path.write_text(json.dumps({"spent": spent}))
    (tmp_path / "generation-1" / "decision.json").write_text(json.dumps({"promoted": False}))
    settings = ImproveSettings(
        benchmark="b",
        train=["t"],
        dev=["d"],
        confirm=["c"],
        generations=1,
        patience=1,
        budget=Budget(**budget),
    )
    return Recordings(ImproveFolder(tmp_path), settings)


@pytest.mark.parametrize(
    ("budget", "reason"),
    [
        ({"episodes": 8}, "5 of 8 episodes are used, and 4 would be next"),
        ({"tokens": 700}, "700 of 700 tokens are used"),
        ({"usd": 1.9}, "2 of 1.9 US dollars are used"),
        ({"hours": 1}, "1 of 1 hours are used"),
    ],
)
def test_a_budget_ends_it(tmp_path: Path, budget: dict[str, float], reason: str) -> None:
    with pytest.raises(BudgetSpentError, match=reason):
        recordings(tmp_path, **budget).check_budget(4)


def test_what_is_left_of_the_money_limits_the_next_recording(tmp_path: Path) -> None:
    assert recordings(tmp_path, episodes=9, tokens=701, usd=5, hours=1.1).check_budget(4) == 3.0


def test_without_limits_nothing_ends(tmp_path: Path) -> None:
    assert recordings(tmp_path).check_budget(10**6) is None


def test_two_processes_do_not_work_in_one_folder(tmp_path: Path) -> None:
    folder = ImproveFolder(tmp_path)
    with folder.locked(), pytest.raises(BenchError, match="another process works in"), folder.locked():
        pass
    with folder.locked():
        pass


def test_cells_are_first_and_last_of_both() -> None:
    assert cells({"best": {"harness": 0, "weights": 0}}) == [Arm()]
    assert cells({"best": {"harness": 2, "weights": 0}}) == [Arm(), Arm(2)]
    assert cells({"best": {"harness": 2, "weights": 3}}) == [Arm(), Arm(2), Arm(0, 3), Arm(2, 3)]
