"""An improvement of something that is measured: verdict and story have its unit and direction.

All recordings are there already, so nothing is recorded.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.servers.grading import Score
from mcp_bench.trainer.cli.improve import improve
from mcp_bench.trainer.improve.folder import Arm, ImproveFolder
from mcp_bench.trainer.improve.settings import ImproveSettings
from tests.support.recorded import Episode, planned, record

pytestmark = [pytest.mark.component, pytest.mark.usefixtures("bench_home")]

TASKS = {"gate": "dev", "confirm": "dev", "test": "test"}


def recorded(what: str, sizes: Sequence[float]) -> str:
    """Record attempts that left files of these sizes, and return the run."""
    stories = [
        (
            planned(f"{what}.{number}", TASKS[what]),
            Episode(partial=0.0, score=Score(name="size", value=size, better="lower", unit="bits/byte")),
        )
        for number, size in enumerate(sizes)
    ]
    return record(stories)[0].id


def measured(place: Path, before: Sequence[float], after: Sequence[float]) -> dict[str, Any]:
    """Judge a harness that was recorded already, and return the history."""
    place.mkdir()
    folder = ImproveFolder(place)
    folder.store(
        ImproveSettings(
            benchmark="b", train=["t"], dev=["d"], confirm=["c"], test=["t"], candidates=1, generations=1,
            patience=1,
        )
    )  # fmt: skip
    for arm, sizes in ((Arm(), before), (Arm(1), after)):
        for what in TASKS:
            done = {"run": recorded(what, sizes), "spent": {"episodes": 10, "tokens": 120}}
            (folder.arm(arm) / f"{what}-0.json").write_text(json.dumps(done))
    proposal = {"action": "harness", "reason": "candidate small", "harness": "h1@12ab"}
    (folder.generation(1) / "proposal.json").write_text(json.dumps(proposal))
    (folder.generation(1) / "check.json").write_text(json.dumps({"refused": [], "for_agents": []}))
    done = CliRunner().invoke(improve, [str(place), "--json", "--html", str(place / "page.html")])
    assert done.exit_code == 0, (done.output, done.exception)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_smaller_size_is_promoted(tmp_path: Path) -> None:
    """Partial credit is 0 throughout: only the size says what became better."""
    found = measured(tmp_path / "out", [2.0] * 10, [1.5, 1.7] * 5)
    (one,) = found["generations"]
    assert (one["verdict"], one["measure"]) == ("promoted", ["size", "bits/byte", "lower"])
    assert one["why"].startswith("size (lower is better) +0.4 [+0.34, +0.46] bits/byte, 0 tasks fixed")
    shown = CliRunner().invoke(improve, [str(tmp_path / "out"), "--show"]).stdout
    assert "+0.4 [+0.34, +0.46] bits/byte" in shown
    assert "On test of size in bits/byte (lower is better): harness +0.4 [+0.34, +0.46] bits/byte" in shown
    page = (tmp_path / "out" / "page.html").read_text()
    assert "Means on test of size in bits/byte (lower is better)" in page
    assert "1.600" in page and "2.000" in page  # as they were measured, not their negatives


def test_a_larger_size_is_not(tmp_path: Path) -> None:
    (one,) = measured(tmp_path / "out", [1.5] * 10, [2.0] * 10)["generations"]
    assert (one["verdict"], one["promoted"]) == ("not promoted", False)
