"""The table of a finished loop, in `mcp-bench loop --show`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.trainer.cli.loop import loop
from mcp_bench.trainer.loop.folder import LoopFolder
from mcp_bench.trainer.loop.settings import LoopSettings
from mcp_bench.trainer.trial.scores import scores_by_group
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


def measured(model: str, *stories: Episode) -> dict[str, Any]:
    """Record an episode of a task for each story, and return the scores as a loop stores them."""
    slots = [planned(f"mail.{number}.dev.0", split="dev") for number in range(len(stories))]
    run = record(list(zip(slots, stories, strict=True)), model=model, benchmark="saasworld")[0]
    return {"model": model, "dev": scores_by_group(run.id, [])}


def shown(folder: Path, base: dict[str, Any], best: dict[str, Any]) -> list[str]:
    folder.mkdir()
    written = LoopFolder(folder)
    facts: dict[str, Any] = {"benchmark": "saasworld", "train": ["a"], "dev": ["b"], "test": ["c"]}
    written.make(LoopSettings(recipe="tiny-cpu", turns=1, teacher="oracle", **facts))
    written.end({"base": base, "turns": [], "best": best})
    result = CliRunner().invoke(loop, ["--show", str(folder)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def test_episodes_that_were_cut_short_are_counted(tmp_path: Path) -> None:
    late = Episode(partial=0.0, termination="timeout")
    invalid = Episode(partial=None, invalid="endpoint_error", termination="timeout", calls=())
    done = Episode(partial=1.0)
    base, best = measured("base", done, done, invalid), measured("best", late, done, late)
    lines = [line for line in shown(tmp_path / "loop", base, best) if "ended by" in line]
    assert lines == ["best on dev: 2 of 3 episodes ended by timeout"]


def test_a_table_of_before_they_were_counted(tmp_path: Path) -> None:
    found = measured("base", Episode(partial=0.0, termination="timeout"))
    del found["dev"]["cut_short"]
    assert not any("ended by" in line for line in shown(tmp_path / "loop", found, found))
