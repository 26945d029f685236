"""The history of an improvement: what is known stays there while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcp_bench.bridge.experience.editing import write_texts
from mcp_bench.trainer.improve.folder import ImproveFolder
from mcp_bench.trainer.improve.generations import run_improve
from mcp_bench.trainer.improve.settings import ImproveSettings

pytestmark = pytest.mark.component

SETTINGS = ImproveSettings(
    benchmark="b", train=["t"], dev=["d"], confirm=["c"], candidates=2, generations=3, patience=3
)


def promoted(folder: ImproveFolder, number: int) -> None:
    """Store a generation whose harness was promoted."""
    proposed = {"action": "harness", "reason": f"candidate {number}", "harness": f"h{number}@{number}"}
    decided: dict[str, Any] = {
        "verdict": "promoted", "promoted": True, "arm": {"harness": number, "weights": 0}, "why": "better",
        "for_agents": "promoted", "difference": 0.5, "interval": [0.4, 0.6], "error": 0.1, "tasks": 10,
    }  # fmt: skip
    write_texts(folder.harness(number), {"INSTRUCTIONS.md": f"Version {number}."})
    folder.phase(number, "proposal", lambda: proposed)
    folder.phase(number, "decision", lambda: decided)


@pytest.mark.usefixtures("bench_home")
def test_a_stop_while_it_goes_on_forgets_no_generation(tmp_path: Path) -> None:
    folder = ImproveFolder(tmp_path)
    folder.store(SETTINGS)
    for number in (1, 2):
        promoted(folder, number)
    whole = run_improve(folder, SETTINGS, print)
    assert (whole["stopped"], len(whole["generations"])) == ("all candidates were tried", 3)

    def stopped(line: str) -> None:
        if line.startswith("generation 2"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_improve(folder, SETTINGS, stopped)
    assert folder.history() == {**whole, "stopped": ""}
    assert (tmp_path / "best" / "INSTRUCTIONS.md").read_text() == "Version 2."
    assert run_improve(folder, SETTINGS, print) == whole == folder.history()
