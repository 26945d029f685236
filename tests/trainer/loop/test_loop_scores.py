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


def cut_short(*folders: Path) -> list[str]:
    """Return the lines about it below the table of some loops."""
    options = [word for folder in folders for word in ("--show", str(folder))]
    result = CliRunner().invoke(loop, options, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return [line for line in result.stdout.splitlines() if "ended by" in line]


def finished(folder: Path, base: dict[str, Any], best: dict[str, Any]) -> Path:
    """Write the folder of a finished loop."""
    folder.mkdir()
    written = LoopFolder(folder)
    facts: dict[str, Any] = {"benchmark": "saasworld", "train": ["a"], "dev": ["b"], "test": ["c"]}
    written.make(LoopSettings(recipe="tiny-cpu", turns=1, teacher="oracle", **facts))
    written.end({"base": base, "turns": [], "best": best})
    return folder


def test_episodes_that_were_cut_short_are_counted(tmp_path: Path) -> None:
    late = Episode(partial=0.0, termination="timeout")
    invalid = Episode(partial=None, invalid="endpoint_error", termination="timeout", calls=())
    done = Episode(partial=1.0)
    base, best = measured("base", done, done, invalid), measured("best", late, done, late)
    one, two = (finished(tmp_path / name, base, best) for name in ("one", "two"))
    assert cut_short(one) == ["best on dev: 2 of 3 episodes ended by timeout"]
    assert cut_short(one, two) == ["best on dev: 4 of 6 episodes ended by timeout"]


def test_a_loop_that_did_not_count_them_yet(tmp_path: Path) -> None:
    found = measured("base", Episode(partial=0.0, termination="timeout"))
    del found["dev"]["cut_short"]
    assert cut_short(finished(tmp_path / "loop", found, found)) == []
