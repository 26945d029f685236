"""The page about a run that learned from reward, and its rollouts for other trainers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from mcp_bench.recorder.cli.report import report
from mcp_bench.servers.errors import BenchError
from mcp_bench.trainer.cli.train import train
from mcp_bench.trainer.rl.folder import RLFolder, RunSettings
from mcp_bench.trainer.rl.report import sections
from tests.support.recorded import Episode, planned, record

pytestmark = pytest.mark.component


def line(step: int, **more: Any) -> dict[str, Any]:
    return {"step": step, "episodes": 8, "invalid": 0, "reward": 0.5, "strict": 0.25, "flat": 0.0, **more}


@pytest.fixture
def folder(tmp_path: Path) -> RLFolder:
    made = RLFolder(tmp_path / "learned")
    made.path.mkdir()
    made.make(
        RunSettings(start="model", algorithm="sdpo", benchmark="saasworld", tasks=("t",), steps=3),
        "summary: x",
    )
    return made


def test_a_run_that_has_not_begun(folder: RLFolder) -> None:
    [section] = sections(folder.path)
    assert (section.words, section.charts) == (["No step is finished yet."], ())
    folder.stopped.write_text(json.dumps({"step": 1, "why": "step 1: 3 of 8 episodes are invalid"}))
    [section] = sections(folder.path)
    assert section.words[1] == "A guard stopped it: step 1: 3 of 8 episodes are invalid"


def test_charts_show_what_was_measured_only(folder: RLFolder) -> None:
    folder.add(line(1))
    folder.add(line(2, loss=0.1, entropy=0.4, kl=0.0, teacher=0.3, gap_solved=0.02))
    folder.stopped.write_text(json.dumps({"step": 3, "why": "step 3: the entropy is low"}), encoding="utf-8")
    [section] = sections(folder.path)
    assert [chart.name for chart in section.charts] == ["rl-reward", "rl-entropy", "rl-teacher"]
    assert section.words[0].startswith("2 steps of 3, 16 episodes; 1 step updated")
    assert "A guard stopped it: step 3" in section.words[1]
    assert "gap solved" in section.tables[0].columns and "seconds" not in section.tables[0].columns


def test_the_page(folder: RLFolder, tmp_path: Path, bench_home: Path) -> None:
    for step in (1, 2):
        folder.add(line(step, loss=0.1 * step, entropy=0.4, kl=0.01))
    page = tmp_path / "page.html"
    done = CliRunner().invoke(
        report, ["--html", str(page), "--loop", str(folder.path)], catch_exceptions=False
    )
    assert done.exit_code == 0, done.output
    text = page.read_text(encoding="utf-8")
    assert "Learning from reward (sdpo)" in text and text.count("<svg") >= 3


def test_the_temperature_of_rollouts_is_a_number(tmp_path: Path) -> None:
    words = ["rollouts", "--run", "run_1", "--format", "prime-rl", "--out", str(tmp_path / "rows.jsonl")]
    done = CliRunner().invoke(train, [*words, "--temperature", "inf"])
    assert done.exit_code == 2
    assert "inf is not a finite number" in done.output


def test_a_recording_without_sampled_tokens_has_no_rollouts(tmp_path: Path) -> None:
    folder, _ = record([(planned(), Episode())])
    words = ["rollouts", "--run", folder.path.name, "--format", "verl", "--out", str(tmp_path / "rows.jsonl")]
    done = CliRunner().invoke(train, words)
    assert str(done.exception) == (
        f"no valid attempt in {folder.path.name} has tokens that a policy sampled, so nothing was written: "
        "name a recording of `mcp-bench train rl`"
    )


@pytest.mark.usefixtures("bench_home")
def test_rollouts_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The name fits, but not that of the unfinished file beside it."""
    folder, _ = record([(planned(), Episode())])
    monkeypatch.setattr(
        "mcp_bench.trainer.rl.rollout_rows.rollout_rows", lambda *_, **__: iter([{"mask": []}])
    )
    out = tmp_path / ("x" * 254)
    words = ["rollouts", "--run", folder.path.name, "--format", "verl", "--out", str(out)]
    with pytest.raises(BenchError, match=f"cannot write {out}: File name too long"):
        CliRunner().invoke(train, words, catch_exceptions=False)
